#!/usr/bin/env python3
"""Finds out how a running server interprets its RoPE settings, and whether its context works.

    python3 server_probe.py URL model.bin [--rope-config config.json]     which reading
    python3 server_probe.py URL --tasks passkey -n 32k                    does the context work; needs no model
    python3 server_probe.py URL_A URL_B                                   does a setting change anything; needs no model
    python3 server_probe.py URL --save FILE, later URL --against FILE     the same with one server
    python3 server_probe.py URL --cut                                     where are prompts cut; needs no model

Make model.bin with model_export.py from the very file that is served. The first form sends a few short prompts and
compares the server's likeliest next tokens with the output of ./run for each candidate: the engines' readings of the
settings, plain RoPE, another scale, and so on. The second hides numbers in texts and asks for them (./run --tasks).

    --rope-config FILE   the config.json that the server was given, in place of the model's settings
    --save FILE          ask, and save the answers
    --against FILE       ask again, and compare with the saved answers
    --cut                find the length, up to -n, from which prompts are cut or refused
    --expect WHAT        of two servers: same, different or different-past:N; exit with 1 if the result differs
    --expect ENGINE      exit with 1 unless the server interprets the settings as this engine does (hf5, hf4@4.51 ...)
    -n N                 tokens of the longest prompt; 8k is 8,192 [512; --tasks: 4k; two servers: 2k; --cut: 32k]
    --prompts K          prompts, the shortest of 32 tokens [8; 64 with --greedy]
    --top N              likeliest tokens asked for [20]
    --greedy             judge by the token that the server chooses: for servers without log-probabilities
    --budget SECONDS     time limit for solving for values that fit no reading [60]; 0: do not solve
    --words              send text, even if the server takes token ids
    -f FILE              take prompts, or the texts of --tasks, from this file [book.txt; filler]

    --tasks LIST         {tasks}, or all
    --from N             the shortest text [an eighth of -n]
    --trials K           questions at each length and depth [2]
    --min-accuracy A     exit with 1 if the accuracy of a task at a length is below A (with 3 at the shortest) [0.5]
    --effective SHARE    print the effective length: the longest that keeps SHARE of the score in texts of up to 1,024
                         tokens; also asks texts of 512 and 1,024 tokens [0.85]
    -m chat              ask in the chat form
    --answer-tokens N    tokens of an answer if thoughts use up the usual 256 [2k]
    --jobs K             requests at a time [1]

    --wait SECONDS       wait this long for a server that is starting [0]
    --retries K          retry this many times after a temporary failure [2]
    --keep FILE          store the output of ./run here, for the next run with the same model and program
    --json               one object of JSON in place of tables and the last line
    --api NAME           the server's form: llama.cpp, vllm, sglang, ollama, mlx_lm, tabbyapi, tgi ... [found by asking]
    --served NAME        the model's name in the server [the first that it lists]
    --key-env NAME       the environment variable that holds the key
    --proxy URL          use this proxy; the environment's is never used
    --timeout SECONDS    time limit of a request [600]
    --tsv                print tables with tabs, even at a terminal
    -h, --help           this text

It sends data only to URL. The exit status is 0: decided, or as expected; 1: not as expected; 2: the server could not be
asked; 3: undecided, and the last line names what would decide it; 130: Ctrl-C. docs/served.md explains the rest.
It needs Python 3.7, its standard library, and ./run.
"""

import argparse
import json
import os
import re
import sys
from textwrap import fill

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from probe.asking.forms import APIS
from probe.asking.web import Server
from probe.common import INTERRUPTED, PROBE, TROUBLE, Problem
from probe.no_model.against import compare
from probe.no_model.cut import ask_cut
from probe.no_model.tasks import ask_tasks
from probe.no_model.trials import task_names
from probe.reading.reading import probe
from probe.report import Report

MOST = 1 << 27
ANSWER_TOKENS = 2048


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Problem('%s (see --help)' % message, 'usage')


def whole(low, high):
    """A parser of integers from low to high, with k and m."""
    def read(text):
        match = re.match(r'([0-9]{1,9})([kKmM]?)$', text)
        value = int(match.group(1)) * {'': 1, 'k': 1 << 10, 'm': 1 << 20}[match.group(2).lower()] if match else None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError("found '%.40s', expected %d to %d" % (text, low, high))
        return value
    return read


def share(text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("found '%.40s', expected 0 to 1" % text)
    return value


def api(text):
    if text.lower() not in APIS:
        raise argparse.ArgumentTypeError("found '%.40s', expected one of %s" % (text, ', '.join(sorted(APIS))))
    return text.lower()


def mode(text):
    if text not in ('chat', 'generate'):
        raise argparse.ArgumentTypeError("found '%.40s', expected chat or generate" % text)
    return text == 'chat'


def make_parser():
    p = Parser(prog='server_probe.py', add_help=False, allow_abbrev=False)
    p.add_argument('url', metavar='URL')
    p.add_argument('model', metavar='model.bin', nargs='?')
    for name in '--rope-config', '--expect', '--tasks', '--served', '--key-env', '--proxy', '--keep', \
                '--save', '--against':
        p.add_argument(name)
    for name in '--greedy', '--words', '--chat', '--tsv', '--json', '--cut':
        p.add_argument(name, action='store_true')
    for name, low, high, usual in (('-n', 16, MOST, 0), ('--prompts', 1, 4096, 0), ('--top', 2, 1000, 20),
                                   ('--from', 16, MOST, 0), ('--trials', 1, 10000, 2), ('--jobs', 1, 256, 1),
                                   ('--retries', 0, 100, 2), ('--timeout', 1, 86400, 600),
                                   ('--wait', 0, 86400, 0), ('--budget', 0, 86400, 60),
                                   ('--answer-tokens', 16, MOST, ANSWER_TOKENS)):
        p.add_argument(name, type=whole(low, high), default=usual, dest={'--from': 'from_'}.get(name))
    # The same as in ./run; --text and --chat are their names up to version 5.
    p.add_argument('-f', '--text', dest='text')
    p.add_argument('-m', dest='chat', type=mode)
    p.add_argument('--min-accuracy', type=share)
    p.add_argument('--effective', type=share)
    p.add_argument('--api', type=api)
    return p


def read_options(arguments):
    options = make_parser().parse_args(arguments)
    options.other = None
    if options.model and re.match('https?://', options.model):
        options.other, options.model = options.model, None
    jobs = [name for name, is_asked in (('--tasks', options.tasks is not None), ('--cut', options.cut),
                                        ('--save', options.save), ('--against', options.against),
                                        ('a second URL', options.other)) if is_asked]
    if not jobs and options.model is None:
        raise Problem('a model file expected behind the URL (model.bin, of the weights that are served), or a second '
                      'URL, --tasks, --cut, --save or --against', 'usage')
    if jobs and options.model is not None:
        raise Problem('%s needs no model file (found %s)' % (jobs[0], options.model), 'usage')
    if len(jobs) > 1:
        raise Problem('%s and %s do not go together' % (jobs[0], jobs[1]), 'usage')
    if options.tasks is not None and options.keep is not None:
        raise Problem('--keep is for a model file: --tasks computes nothing here', 'usage')
    options.key = None
    if options.key_env is not None:
        options.key = os.environ.get(options.key_env)
        if not options.key or not options.key.isprintable():
            raise Problem('--key-env %s: the environment has no key there' % options.key_env, 'key')
    return options


def help_text():
    """The help text, with the tasks that run can ask."""
    names = fill(', '.join(task_names() or ['those of ./run --tasks']), width=90,
                 subsequent_indent=' ' * 25)
    return __doc__.replace('python3 server_probe.py', PROBE).replace('{tasks}', names)


def compare_two(server, options, out):
    other = options.other and Server(options.other, options.key, options.proxy, options.timeout)
    return compare(server, other, options, out)


def job_of(options):
    if options.tasks is not None:
        return ask_tasks
    if options.cut:
        return ask_cut
    return compare_two if options.other or options.save or options.against else probe


def main(arguments):
    if '-h' in arguments or '--help' in arguments:
        print(help_text(), end='')
        return 0
    out = None
    try:
        options = read_options(arguments)
        out = Report(options)
        server = Server(options.url, options.key, options.proxy, options.timeout)
        if options.wait:
            server.wait(options.wait)
        return job_of(options)(server, options, out)
    except KeyboardInterrupt:
        if out:
            out.words = 'interrupted'
            out.end(INTERRUPTED, 'interrupted')
        raise
    except Problem as problem:
        if out:
            out.words = str(problem)
            out.end(TROUBLE, problem.reason)
        elif '--json' in arguments:
            print(json.dumps({'status': TROUBLE, 'reason': problem.reason, 'last': str(problem)}, indent=1))
        raise


if __name__ == '__main__':
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except Problem as problem:
        sys.stderr.write('server_probe: %s\n' % problem)
        status = TROUBLE
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        status = TROUBLE
    os._exit(status) if status == INTERRUPTED else sys.exit(status)
