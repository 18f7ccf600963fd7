"""Asking a server: requests, forms of questions and answers, the checked likeliest tokens."""
