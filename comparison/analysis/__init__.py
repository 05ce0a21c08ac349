"""The numbers of a report: tables and records in, tables and records out. No figure, no file, no markup."""
