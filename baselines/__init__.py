"""Every competitor of BO-FM, one file each."""
