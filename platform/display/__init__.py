"""What a person or a program is told, meanwhile and at the end."""
