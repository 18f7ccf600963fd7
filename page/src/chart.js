// A line chart: series that grow, faint recorded ones below them, a rule where training ended, and values under the
// pointer or, with the arrow keys, under a cursor.
import { axisBottom, axisLeft } from 'd3-axis';
import { scaleLinear, scaleLog } from 'd3-scale';
import { pointer } from 'd3-selection';
import { line } from 'd3-shape';
import { attrs, count, drawing, elements, h, onceAFrame, short } from './dom.js';

const MARGIN = { top: 26, right: 20, bottom: 40, left: 46 }; // the title of y is above the highest tick

const LINE = 15; // pixels of a tick's label

// A filter for ticks: those so many pixels from the last one that was kept.
function apartBy(pixels, scale) {
    let last = Infinity;
    return (tick) => {
        if (Math.abs(scale(tick) - last) < pixels) return false;
        last = scale(tick);
        return true;
    };
}

// { label, height, x: { domain, log, label, ticks }, y: { domain (or undefined: what there is), log, label, most },
//   rule: { at, text }, level: { at, text }, show }
export function chart(options) {
    const series = new Map(); // by name: { points: [[x, y]], colour, dash, ghost, title, width }
    const svg = drawing().attr('role', 'img').attr('tabindex', 0);
    const readout = h('p.readout');
    const box = h('div.chart', svg.node(), readout);
    const clip = `clip${Math.random().toString(36).slice(2)}`;
    let x,
        y,
        cursor = null;
    svg.attr('aria-label', options.label);
    const clipRect = svg.append('clipPath').attr('id', clip).append('rect');
    const parts = Object.fromEntries(
        ['shade', 'xAxis', 'yAxis', 'ghosts', 'lines', 'levels', 'marks', 'over'].map((name) => [
            name,
            svg.append('g'),
        ]),
    );
    parts.xAxis.attr('class', 'axis');
    parts.yAxis.attr('class', 'axis');
    for (const name of ['ghosts', 'lines']) parts[name].attr('clip-path', `url(#${clip})`);
    const xLabel = svg.append('text').attr('class', 'axis-label').attr('text-anchor', 'end');
    const yLabel = svg.append('text').attr('class', 'axis-label').attr('x', 4).attr('y', 10);

    const recordedText = svg.append('text').attr('class', 'axis-label').attr('text-anchor', 'end').attr('y', 10);
    // A recorded line is in the place of what has not been measured yet.
    const isAlone = (s) => s.ghost && s.title && !series.has(s.name.slice(1));

    function yDomain() {
        if (options.y.domain) return options.y.domain;
        let low = Infinity,
            high = -Infinity;
        for (const { points } of series.values())
            for (const [, value] of points)
                if (Number.isFinite(value)) {
                    low = Math.min(low, value);
                    high = Math.max(high, value);
                }
        if (low > high) return options.y.log ? [1, 10] : [0, 1];
        if (options.y.most) high = Math.min(high, options.y.most);
        if (options.y.least) low = Math.max(Math.min(low, 1), options.y.least);
        const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
        return options.y.log ? [low / 1.1, high * 1.1] : [low - pad, high + pad];
    }

    function draw() {
        const width = box.clientWidth,
            height = options.height ?? 260;
        if (!width) return;
        svg.attr('width', width).attr('height', height).attr('viewBox', `0 0 ${width} ${height}`);
        const right = width - MARGIN.right,
            bottom = height - MARGIN.bottom;
        x = (options.x.log ? scaleLog().base(2) : scaleLinear()).domain(options.x.domain).range([MARGIN.left, right]);
        y = (options.y.log ? scaleLog() : scaleLinear()).domain(yDomain()).range([bottom, MARGIN.top]);
        attrs(clipRect, {
            ...{ x: MARGIN.left, width: right - MARGIN.left },
            ...{ y: MARGIN.top - 2, height: bottom - MARGIN.top + 2 },
        });
        const few = Math.max(2, Math.floor(width / 90));
        const xAxis = axisBottom(x)
            .tickSizeOuter(0)
            .tickFormat((v) => short(v, 4));
        if (options.x.ticks)
            xAxis.tickValues(options.x.ticks.filter((t) => t >= options.x.domain[0] && t <= options.x.domain[1]));
        else xAxis.ticks(few);
        parts.xAxis.attr('transform', `translate(0,${bottom})`).call(xAxis);
        const all = y.ticks(),
            round = all.filter((t) => /^[0.]*[125]0*$/.test(String(t))),
            spread = all.filter((_, i) => i % Math.ceil(all.length / 7) === 0);
        const wanted = !options.y.log ? y.ticks(5) : round.length > 2 ? round : spread;
        const yTicks = wanted.filter(apartBy(LINE, y));
        parts.yAxis.attr('transform', `translate(${MARGIN.left},0)`).call(
            axisLeft(y)
                .tickValues(yTicks)
                .tickSize(-(right - MARGIN.left))
                .tickFormat((v) => short(v)),
        );
        attrs(xLabel, { x: right, y: height - 4, text: options.x.label });
        yLabel.text(options.y.label);
        drawRule(bottom, right);
        const path = line()
            .defined(([, v]) => Number.isFinite(v))
            .x(([a]) => x(a))
            .y(([, v]) => y(v));
        for (const ghost of [true, false]) {
            const its = [...series.values()].filter((s) => !!s.ghost === ghost),
                how = {
                    class: (s) => (!ghost ? 'live' : isAlone(s) ? 'ghost alone' : 'ghost'),
                    style: (s) => `stroke: ${s.colour}`,
                    'stroke-dasharray': (s) => s.dash || null,
                    d: (s) => path(s.points),
                };
            elements(parts[ghost ? 'ghosts' : 'lines'], 'path', its, how, (s) => s.name);
        }
        const isRecorded = [...series.values()].some(isAlone);
        attrs(recordedText, { x: right, y: width < 560 ? 25 : 10, text: isRecorded ? 'thin lines: recorded' : '' });
        drawLevel(right);
        drawCursor(bottom);
    }

    // Enters a group of a line and its words.
    const lineWithText = (name) => (enter) => {
        const made = enter.append('g').attr('class', name);
        made.append('line');
        made.append('text');
        return made;
    };

    // A level is a line across, at a value of y that means something.
    function drawLevel(right) {
        const levels = options.level ? [options.level] : [];
        const g = parts.levels.selectAll('g').data(levels).join(lineWithText('level-line'));
        g.attr('transform', (level) => `translate(0,${y(level.at)})`);
        g.select('line').attr('x1', MARGIN.left).attr('x2', right);
        attrs(g.select('text'), { x: right, y: -4, 'text-anchor': 'end', text: (level) => level.text });
    }

    function drawRule(bottom, right) {
        const rules =
            options.rule && options.rule.at > options.x.domain[0] && options.rule.at < options.x.domain[1]
                ? [options.rule]
                : [];
        elements(parts.shade, 'rect', rules, {
            ...{ class: 'past', x: (r) => x(r.at), width: (r) => Math.max(0, right - x(r.at)) },
            ...{ y: MARGIN.top, height: bottom - MARGIN.top },
        });
        const g = parts.marks.selectAll('g').data(rules).join(lineWithText('rule'));
        g.attr('transform', (r) => `translate(${x(r.at)},0)`);
        g.select('line').attr('y1', MARGIN.top).attr('y2', bottom);
        const onLeft = rules[0] && x(rules[0].at) > right - 130;
        attrs(g.select('text'), {
            ...(onLeft ? { x: -4, 'text-anchor': 'end' } : { x: 4, 'text-anchor': 'start' }),
            y: MARGIN.top + 8,
            text: (r) => r.text,
        });
    }

    const nearest = (points, at) => {
        let best = null;
        for (const p of points)
            if (Number.isFinite(p[1]) && (!best || Math.abs(p[0] - at) < Math.abs(best[0] - at))) best = p;
        return best;
    };

    function drawCursor(bottom) {
        const all = cursor === null ? [] : [...series.values()].filter((s) => s.title && (!s.ghost || isAlone(s)));
        const dots = all.map((s) => ({ s, p: nearest(s.points, cursor) })).filter(({ p }) => p);
        const its = cursor === null ? [] : [cursor];
        elements(parts.over, 'line', its, { class: 'cursor', x1: (c) => x(c), x2: (c) => x(c), y1: MARGIN.top, y2: bottom });
        elements(parts.over, 'circle', dots, {
            r: 3.5,
            style: ({ s }) => `fill: ${s.colour}`,
            cx: ({ p }) => x(p[0]),
            cy: ({ p }) => y(Math.max(y.domain()[0], Math.min(y.domain()[1], p[1]))),
        });
        const show = options.show ?? ((v) => short(v));
        readout.replaceChildren(
            ...(dots.length
                ? [`${options.x.name ?? options.x.label} ${cursor > 50 ? count(cursor) : short(cursor, 3)}: `]
                : []),
            ...dots.flatMap(({ s, p }) => {
                const dot = h('i.dot');
                dot.style.background = s.colour;
                return [dot, `${s.title} ${show(p[1]).replace('-', '−')}  `];
            }),
        );
    }

    const redraw = onceAFrame(draw);
    const move = (to) => {
        cursor = to === null ? null : Math.min(options.x.domain[1], Math.max(options.x.domain[0], to));
        redraw();
    };
    svg.on('pointermove', (event) => x && move(x.invert(pointer(event)[0])))
        .on('pointerleave', () => move(null))
        .on('focus', () => (readout.ariaLive = 'polite')) // it is read out for those who move the cursor by keys
        .on('blur', () => {
            readout.ariaLive = 'off';
            move(null);
        })
        .on('keydown', (event) => {
            const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (!step || !x) return;
            event.preventDefault();
            const at = cursor === null ? x.range()[0] : x(cursor);
            move(x.invert(at + step * (event.shiftKey ? 40 : 8)));
        });
    new ResizeObserver(redraw).observe(box);

    return Object.assign(box, {
        // Puts a series in the place of the one of that name. A ghost's name begins with ~.
        set(name, points, look = {}) {
            if (!points) return; // nothing is recorded
            series.set(name, { ...series.get(name), ...look, name, points });
            redraw();
        },
        remove(name) {
            if (series.delete(name)) redraw();
        },
        clear() {
            series.clear();
            redraw();
        },
        change(more) {
            for (const key of Object.keys(more)) options[key] = { ...options[key], ...more[key] };
            redraw();
        },
    });
}

// A legend of { title, colour, dash }, as drawn.
export function legend(entries) {
    return h(
        'p.legend',
        entries.map(({ title, colour, dash }) => {
            const mark = h('i.swatch');
            mark.style.background = dash
                ? `repeating-linear-gradient(90deg, ${colour} 0 5px, transparent 5px 8px)`
                : colour;
            return h('span', mark, title);
        }),
    );
}
