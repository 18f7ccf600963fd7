"""Asking a server: requests, forms of questions and answers, and checks of the likeliest tokens."""
