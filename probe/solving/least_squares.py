"""Nonlinear least squares for few parameters with expensive evaluations: Levenberg's damped steps (1944), with
Broyden's updates of the derivatives (1965) between measured ones."""

from __future__ import annotations

import math
from typing import Callable, List, Optional

Vector = List[float]

ENOUGH = 0.01     # of the sum of squares: a step that gains less is the last
DAMPINGS = 1e-3, 1e-1, 1.0, 10.0


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b))


def solved(rows: List[Vector], right: Vector) -> Optional[Vector]:
    """x with rows x = right, by elimination with pivots; None if there is no solution."""
    n, m = len(right), [row + [value] for row, value in zip(rows, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(m[r][i]))
        if abs(m[pivot][i]) < 1e-14:
            return None
        m[i], m[pivot] = m[pivot], m[i]
        for r in range(n):
            if r != i:
                share = m[r][i] / m[i][i]
                m[r] = [a - share * b for a, b in zip(m[r], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


def damped_step(columns: List[Vector], left: Vector, damping: float) -> Optional[Vector]:
    """The step that brings `left` nearest to 0; a column is the change with a unit of one parameter."""
    square = [[dot(a, b) for b in columns] for a in columns]
    largest = max(square[i][i] for i in range(len(columns)))
    for i in range(len(columns)):
        square[i][i] += damping * square[i][i] + 1e-6 * largest + 1e-12
    return solved(square, [dot(column, left) for column in columns])


class Fit:
    """A point x, its residual from the server, and the columns of derivatives there."""

    def __init__(self, x: Vector, left: Vector, columns: List[Vector]) -> None:
        self.x, self.left, self.columns = x, left, columns
        self.squares = dot(left, left)


def columns_at(measure: Callable[[Vector], Optional[Vector]], x: Vector, left: Vector, steps: Vector) -> List[Vector]:
    """Derivatives from one-sided differences; from the other side if the first has no effect or cannot be computed."""
    found = []
    for i, step in enumerate(steps):
        for side in step, -step:
            there = measure([v + side * (j == i) for j, v in enumerate(x)])
            if there is not None and there != left:
                found.append([(a - b) / side for a, b in zip(left, there)])
                break
        else:
            found.append([0.0] * len(left))
    return found


def updated(columns: List[Vector], step: Vector, change: Vector) -> List[Vector]:
    """Broyden's update: the columns explain the change that the step made."""
    length = dot(step, step)
    missed = [c - sum(s * column[i] for s, column in zip(step, columns)) for i, c in enumerate(change)]
    return [[value + miss * s / length for value, miss in zip(column, missed)] for s, column in zip(step, columns)]


def least_squares(measure: Callable[[Vector], Optional[Vector]], x: Vector, steps: Vector, reach: float,
                  most: int = 12) -> Optional[Fit]:
    """Minimizes the squares of measure(x), from x on; None if x cannot be measured. steps: for derivatives; reach: the
    longest step of a parameter."""
    left = measure(x)
    if left is None:
        return None
    fit = Fit(x, left, columns_at(measure, x, left, steps))
    is_fresh, tries = True, 0
    while tries < most:
        before, found = fit.squares, None
        for damping in DAMPINGS:
            step = damped_step(fit.columns, fit.left, damping)
            if step is None:
                continue
            longest = max(abs(part) for part in step)
            step = [s * min(1, reach / longest) for s in step] if longest > 0 else step
            there = measure([a + b for a, b in zip(fit.x, step)]) if longest > 1e-4 else None
            tries += 1
            if there is not None and dot(there, there) < before:
                change = [a - b for a, b in zip(fit.left, there)]
                found = Fit([a + b for a, b in zip(fit.x, step)], there, updated(fit.columns, step, change))
                break
            if longest <= 1e-4 or tries >= most:
                break
        if found is None and is_fresh:
            break
        if found is None:
            fit.columns, is_fresh = columns_at(measure, fit.x, fit.left, steps), True
            continue
        gain = before - found.squares
        fit, was_fresh, is_fresh = found, is_fresh, False
        if gain < ENOUGH * before:
            if was_fresh:
                break
            fit.columns, is_fresh = columns_at(measure, fit.x, fit.left, steps), True
    return fit


def errors(columns: List[Vector], left: Vector, sizes: List[int]) -> Vector:
    """Standard errors of the parameters: the larger of two, over tokens and over prompts (sizes: tokens of each), which
    allows for a common deviation of a prompt's tokens. Infinite if a parameter is undetermined."""
    told = [i for i, column in enumerate(columns) if any(column)]
    if len(told) < len(columns):
        rest = dict(zip(told, errors([columns[i] for i in told], left, sizes))) if told else {}
        return [rest.get(i, math.inf) for i in range(len(columns))]
    k, n = len(columns), len(left)
    square = [[dot(a, b) for b in columns] for a in columns]
    inverse = [solved(square, [float(i == j) for j in range(k)]) for i in range(k)]
    if any(row is None for row in inverse):
        return [math.inf] * k
    alone = dot(left, left) / max(n - k, 1)
    middle, at = [[0.0] * k for _ in range(k)], 0
    for size in sizes:
        scores = [dot(column[at:at + size], left[at:at + size]) for column in columns]
        middle = [[m + a * b for m, b in zip(row, scores)] for row, a in zip(middle, scores)]
        at += size
    few = len(sizes) / max(len(sizes) - k, 1)
    found = []
    for i in range(k):
        by_prompt = few * sum(inverse[i][a] * middle[a][b] * inverse[i][b] for a in range(k) for b in range(k))
        found.append(math.sqrt(max(by_prompt, alone * inverse[i][i], 0)))
    return found
