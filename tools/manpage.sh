#!/bin/sh
# The man page run.1 on standard output, from the program's own --help, which is the table in src/options.c.
#     tools/manpage.sh ./run
"$1" --help | awk '
    function plain(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); return text }
    NR == 1 { split($0, about, ": "); split(about[1], name, " ")
        printf ".TH RUN 1 \"\" \"rope.c %s\" \"User Commands\"\n.SH NAME\nrun \\- %s\n", name[2], plain(about[2]); next }
    /^usage: / { printf ".SH SYNOPSIS\n.B run\n%s\n.SH OPTIONS\n", plain(substr($0, 12)); next }
    /^[A-Z].*:$/ { printf ".SS %s\n", plain(substr($0, 1, length($0) - 1)); next }
    /^  / { left = substr($0, 3, 22); text = substr($0, 26)
        sub(/ +$/, "", left); printf ".TP\n.B %s\n%s\n", plain(left), plain(text) }'
cat <<'END'
.SH EXIT STATUS
0; 1 when it could not do what was asked, or the check or the accuracy was found wanting; 2 for a wrong command line.
.SH ENVIRONMENT
OMP_NUM_THREADS, NO_COLOR, TERM.
END
