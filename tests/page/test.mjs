// The page, driven in headless Chromium: every panel by mouse and by keyboard, its numbers beside ./run's, bad input,
// and pictures of everything in build/page-pictures. `node tests/page/test.mjs [WORD ...]` runs those whose names
// hold one.
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  check,
  close,
  launch,
  main,
  open,
  PAGE,
  PICTURES,
  buildReference,
  ROOT,
  run,
  serve,
  table,
  tableOf,
} from "./browser.mjs";

buildReference();
const { server, url } = await serve();
const browser = await launch();
const began = Date.now();
const page = await open(browser, url, { ready: false });
const alive = Date.now() - began;
const BOOK = readFileSync(join(ROOT, "page/book.txt"), "utf8");

// A wish to the page's own engine; the parts that came are put together by `fold`.
const wish = (on, name, data) =>
  on.evaluate(
    async ([name, data]) => {
      const parts = [];
      const done = await rope.engine.ask(
        name,
        { model: "model", ...data },
        (part) => parts.push(part),
      ).promise;
      return {
        done,
        nll: parts.flatMap((p) => (p.nll ? Array.from(p.nll) : [])),
        tokens: parts.flatMap((p) => p.tokens ?? []),
      };
    },
    [name, data],
  );
const text = (selector) => page.locator(selector).innerText();
const until = (selector, pattern, on = page) =>
  on.waitForFunction(
    ([s, p]) => new RegExp(p).test(document.querySelector(s)?.innerText ?? ""),
    [selector, pattern.source],
    { timeout: 240000 },
  );
const chip = (panel, name) =>
  page
    .locator(`#${panel} button.chip`, { hasText: new RegExp(`^${name}$`) })
    .first();
async function dragTo(locator, dx, dy = 0) {
  await locator.scrollIntoViewIfNeeded();
  const box = await locator.boundingBox();
  const x = box.x + box.width / 2,
    y = box.y + box.height / 2;
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + dx / 2, y + dy / 2, { steps: 4 });
  await page.mouse.move(x + dx, y + dy, { steps: 4 });
  await page.mouse.up();
  await page.waitForTimeout(60);
}
const stopAll = () =>
  page.evaluate(() => {
    for (const b of document.querySelectorAll("button"))
      if (["Stop", "Pause"].includes(b.textContent)) b.click();
  });

const tests = {
  async start() {
    check(alive < 10000, "the first screen is there", `${alive} ms`);
    console.log(`first screen after ${alive} ms (browser start included)`);
    await page.waitForFunction(() =>
      /Ready/.test(document.getElementById("boot").textContent),
    );
    const sizes = [
      "index.html",
      "page.js",
      "page.css",
      "rope.wasm",
      "model.bin",
      "tokenizer.bin",
    ].map((f) => statSync(join(PAGE, f)).size);
    check(
      sizes.reduce((a, b) => a + b) < 8e6,
      "at most 8 MB with one model",
      sizes,
    );
    check(
      statSync(join(PAGE, "rope.html")).size < 8e6,
      "rope.html is at most 8 MB",
    );
    check(
      !page.asked.some((u) => u.includes("8k")),
      "the second model is not fetched by itself",
    );
  },

  // Panel 1: it writes by itself up to 512, asks, and goes on.
  async watch_it_break() {
    await until("#break .status", /Nothing has happened yet/);
    const columns = page.locator("#break .column");
    check((await columns.count()) === 3, "three columns");
    for (let i = 0; i < 3; i++)
      check(
        /position 512/.test(await columns.nth(i).locator("small").innerText()),
        "a column stands at 512",
      );
    await page
      .locator("#break")
      .screenshot({ path: join(PICTURES, "break-512.png") });
    await page.locator("#break .predict button").nth(1).focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() =>
      /position (6|7|8|9)\d\d/.test(
        document.querySelector("#break .column small").innerText,
      ),
    );
    check(
      (await page.locator("#break .edge").count()) === 3,
      "a line at 512 in each column",
    );
    await page.locator("#break button", { hasText: "Pause" }).click();
    await page.waitForTimeout(400);
    const paused = await columns.first().locator("small").innerText();
    await page.waitForTimeout(400);
    check(
      (await columns.first().locator("small").innerText()) === paused,
      "Pause pauses",
      paused,
    );
    await page.locator("#break button", { hasText: "Continue" }).click();
    const field = page.locator("#break input[type=text]");
    await field.fill("My dear sister");
    await field.press("Enter");
    await until("#break .column .scroll", /^My dear sister/);
    await until("#break .status", /Nothing has happened yet/);
    const shown = await page
      .locator("#break .column .scroll")
      .first()
      .textContent();
    const said = run(
      "model.bin",
      "-n",
      "512",
      "-t",
      "0.8",
      "-p",
      "0.9",
      "-s",
      "7",
      "--ignore-eos",
      "--kv",
      "f32",
      "--rope",
      "none",
      "-i",
      "My dear sister",
    );
    const plain = (t) => t.replace(/\s+/g, " ").trim();
    check(
      plain(said).startsWith(plain(shown).slice(0, 300)),
      "the text is the one of ./run at the same seed",
      `${plain(shown).slice(0, 120)} / ${plain(said).slice(0, 120)}`,
    );
    check(
      (
        await page.locator("#break .command code").first().textContent()
      ).includes("'My dear sister'"),
      "the command has the opening",
    );
    check(
      (await page.evaluate(() => location.hash)).includes(
        "open=My+dear+sister",
      ),
      "the address has the opening",
    );
    await stopAll();
  },

  async greedy_text() {
    const prompt = "It was a fine morning in the spring when";
    for (const [method, options] of [
      ["none", ["--rope", "none"]],
      ["yarn:factor=4", ["--rope", "yarn", "--factor", "4"]],
    ]) {
      const n = 240;
      const { tokens } = await wish(page, "write", {
        method,
        prompt,
        context: n,
        temperature: 0,
        topP: 0,
        seed: 1,
      });
      const said = run(
        "model.bin",
        "-t",
        "0",
        "-n",
        String(n),
        "--kv",
        "f32",
        "--ignore-eos",
        "-i",
        prompt,
        ...options,
      );
      check(
        tokens.length >= 210 &&
          said.trim() ===
            tokens
              .map((t) => t.text)
              .join("")
              .trim(),
        `greedy text of ${n} tokens, ${method}`,
        tokens.map((t) => t.text).join(""),
      );
    }
  },

  // -ln p of every token, as --per-token prints it.
  async per_token() {
    for (const [n, methods] of [
      [700, ["none", "yarn", "window", "dynamic-ntk", "llama3"]],
      [1400, ["ntk-by-parts"]],
    ]) {
      const rows = table(
        "model.bin",
        "--ppl",
        "page/book.txt",
        "-n",
        String(n),
        "--per-token",
        "--kv",
        "f32",
        "--rope",
        methods.join(","),
      );
      for (const method of methods) {
        const { nll } = await wish(page, "nll", {
          method,
          text: BOOK,
          context: n,
        });
        close(
          nll,
          rows.filter((r) => r.method === method).map((r) => +r.nll),
          1e-3,
          `-ln p of ${n} tokens, ${method}`,
        );
      }
    }
  },

  async frequencies() {
    for (const method of [
      "none",
      "linear",
      "ntk",
      "ntk-by-parts",
      "yarn",
      "llama3",
      "dynamic-yarn",
      "yarn:factor=8:ramp=turns",
    ]) {
      const found = await page.evaluate((m) => {
        rope.page.plan(m, 3000);
        const { frequencies, plain } = rope.page.frequencies(3000);
        return [Array.from(frequencies), Array.from(plain)];
      }, method);
      const [name, ...settings] = method.split(":");
      const options = settings.flatMap((s) => [
        `--${s.split("=")[0]}`,
        s.split("=")[1],
      ]);
      const rows = table(
        "--explain",
        "--head-dim",
        "64",
        "--theta",
        "10000",
        "--train-ctx",
        "512",
        "-n",
        "3000",
        "--rope",
        name,
        ...options,
      );
      const relative = (list, column) =>
        list.map((x, i) => x / +rows[i][column]);
      close(
        relative(found[0], "scaled_inv_freq"),
        rows.map(() => 1),
        1e-9,
        `frequencies, ${method}`,
      );
      close(
        relative(found[1], "inv_freq"),
        rows.map(() => 1),
        1e-9,
        `plain frequencies, ${method}`,
      );
    }
  },

  async clocks() {
    const numbers = async () =>
      (await text("#clocks .numbers"))
        .split("\n")
        .filter((_, i) => i % 2 === 0);
    await page.locator("#clocks").scrollIntoViewIfNeeded();
    const rows = table(
      "--explain",
      "--head-dim",
      "64",
      "--theta",
      "10000",
      "--train-ctx",
      "512",
      "-n",
      "2048",
      "--rope",
      "none",
    );
    const turn = 2 * Math.PI,
      f = rows.map((r) => +r.inv_freq);
    const strange = f.filter(
      (x) => x * 512 < turn && (900 * x) % turn > x * 512,
    ).length;
    const product = f.reduce((a, x) => a + Math.cos(900 * x), 0) / 32;
    check(
      (await numbers())[1] === `${strange} of 32`,
      "hands that stand where they never stood",
      await numbers(),
    );
    check(
      (await numbers())[2] === product.toFixed(6),
      "their product",
      `${await numbers()} ${product}`,
    );
    await dragTo(page.locator("#clocks .token").nth(1), 120);
    check(
      +(await numbers())[0].replace(",", "") > 1000,
      "the query is dragged",
      await numbers(),
    );
    await page.locator("#clocks .token").nth(0).focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("PageUp");
    await page.waitForTimeout(80);
    const apart = await numbers();
    const before = await page
      .locator("#clocks .dial .query")
      .first()
      .getAttribute("x2");
    await dragTo(page.locator("#clocks .band"), 60);
    check(
      (await numbers()).join() === apart.join(),
      "two tokens dragged together: difference and product stay",
      `${await numbers()} ${apart}`,
    );
    check(
      (await page
        .locator("#clocks .dial .query")
        .first()
        .getAttribute("x2")) !== before,
      "and the hands move",
    );
    await page.locator("#clocks .band").focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForTimeout(60);
    check((await numbers()).join() === apart.join(), "and with the arrow keys");
    await page
      .locator("#clocks")
      .screenshot({ path: join(PICTURES, "clocks.png") });
    await chip("clocks", "yarn").focus();
    await page.keyboard.press("Space");
    await page.waitForTimeout(60);
    check(
      /^0 of/.test((await numbers())[1]),
      "with YaRN no hand is where it never stood",
      await numbers(),
    );
    check(
      /method=yarn/.test(
        await page.evaluate(
          () => new Promise((r) => setTimeout(() => r(location.hash), 300)),
        ),
      ),
      "the address has the method",
    );
  },

  async count_the_turns() {
    await page.locator("#turns .predict button").nth(2).focus();
    await page.keyboard.press("Enter");
    await page.waitForTimeout(80);
    const never = (...o) =>
      table("--explain", "--rope", "none", ...o).filter((r) => +r.turns < 1)
        .length;
    check(
      (await text("#turns .predict .reply")).includes(
        `Yes: ${never("--head-dim", "64", "--theta", "10000", "--train-ctx", "512")}`,
      ),
      "the prediction is answered",
      await text("#turns .predict .reply"),
    );
    await page.locator("#turns button", { hasText: "Llama 3" }).click();
    await page.waitForTimeout(80);
    check(
      (await text("#turns")).includes(
        `${never("--head-dim", "128", "--theta", "500000", "--train-ctx", "8192")} of 64`,
      ),
      "Llama 3",
      await text("#turns"),
    );
    const slider = page.locator("#turns input[type=range]").first();
    await slider.focus();
    await page.keyboard.press("Home");
    await page.waitForTimeout(80);
    check(
      (await text("#turns")).includes(
        `${never("--head-dim", "128", "--theta", "100", "--train-ctx", "8192")} of 64`,
      ),
      "theta by keyboard",
      await text("#turns"),
    );
    await page.locator("#turns button", { hasText: "this page" }).click();
    await page
      .locator("#turns")
      .screenshot({ path: join(PICTURES, "turns.png") });
  },

  async fix_it_yourself() {
    await chip("fix", "1,024").click();
    await chip("fix", "yarn").click();
    await page.waitForFunction(
      () =>
        /^\d/.test(
          document.querySelectorAll("#fix .numbers b")[1]?.innerText ?? "",
        ) &&
        document.querySelector("#fix > .status, #fix .status").innerText === "",
    );
    const rows = table(
      "model.bin",
      "--ppl",
      "page/book.txt",
      "-n",
      "1024",
      "--kv",
      "f32",
      "--rope",
      "yarn",
    );
    const past = rows.find((r) => r.from === "512");
    const shown = (await text("#fix .numbers")).split("\n");
    check(
      Math.abs(+shown[2] - +past.ppl) < 0.06 + 1e-3 * +past.ppl,
      "the handles at YaRN have its perplexity past 512",
      `${shown} ${past.ppl}`,
    );
    const gauges = async () =>
      (await text("#fix .gauges")).match(/\d+/g).map(Number);
    check(
      (await gauges())[0] > 90 && (await gauges())[1] > 98,
      "both gauges are full with YaRN",
      await gauges(),
    );
    await page
      .locator("#fix")
      .screenshot({ path: join(PICTURES, "fix-yarn.png") });
    await chip("fix", "linear").click();
    await page.waitForTimeout(200);
    check((await gauges())[0] < 50, "linear blurs neighbours", await gauges());
    await chip("fix", "plain").click();
    await page.waitForTimeout(200);
    check(
      (await gauges())[1] < 90,
      "plain meets unseen angles",
      await gauges(),
    );
    await page.locator("#fix .handles").focus();
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowRight");
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowUp");
    await page.waitForTimeout(80);
    check(
      /1\.3/.test(
        await page.locator("#fix .handles").getAttribute("aria-valuetext"),
      ),
      "a handle by keyboard",
      await page.locator("#fix .handles").getAttribute("aria-valuetext"),
    );
    await dragTo(page.locator("#fix .handles"), 200, -30);
    check(
      /slow=/.test(
        await page.evaluate(
          () => new Promise((r) => setTimeout(() => r(location.hash), 300)),
        ),
      ),
      "the address has the handles",
    );
    // What the handles do is what ./run does with the same divisors.
    const { nll } = await wish(page, "nll", {
      method: {
        divisors: Array.from({ length: 32 }, (_, i) => 1 + i / 10),
        attention: 1.1,
      },
      text: BOOK,
      context: 700,
    });
    const block = {
      rope_type: "longrope",
      factor: 2,
      original_max_position_embeddings: 512,
      attention_factor: 1.1,
      short_factor: Array.from({ length: 32 }, (_, i) => 1 + i / 10),
      long_factor: Array.from({ length: 32 }, (_, i) => 1 + i / 10),
    };
    const file = join(tmpdir(), `rope-page-${process.pid}.json`);
    writeFileSync(file, JSON.stringify(block));
    const own = table(
      "model.bin",
      "--ppl",
      "page/book.txt",
      "-n",
      "700",
      "--per-token",
      "--kv",
      "f32",
      "--rope-config",
      file,
    );
    close(
      nll,
      own.map((r) => +r.nll),
      1e-3,
      "-ln p with handles of one's own",
    );
  },

  // The search is ./run's own: the same windows, the same candidates, the same divisors.
  async search() {
    const said = (lines) =>
      lines
        .filter((line) => /^# (read|searched|judged)/.test(line))
        .map((line) => line.replace(/[\d.]+/g, "?"));
    const numbers = (lines) =>
      lines
        .filter((line) => / nll /.test(line))
        .map((line) => +line.match(/nll (\S+)/)[1]);
    const block = (lines) => JSON.parse(lines.at(-1));
    const of = (n, windows, reads, seed, method) =>
      run(
        ...["model.bin", "--search", "page/book.txt", "--kv", "f32"],
        ...["-n", n, "--search-windows", windows, "--reads", reads].map(String),
        ...["-s", String(seed), "--rope", method],
      )
        .trim()
        .split("\n");
    for (const [n, windows, reads, seed, method] of [
      [640, 1, 14, 5, "llama3"],
    ]) {
      const lines = of(n, windows, reads, seed, method);
      const { parts, done } = await page.evaluate(
        async ([wish, book]) => {
          const parts = [],
            engine = rope.engine.apart();
          const done = await engine.ask(
            "search",
            { model: "model", text: book, ...wish },
            (part) => parts.push(part),
          ).promise;
          engine.close();
          return { parts, done };
        },
        [{ method, context: n, windows, reads, seed }, BOOK],
      );
      const what = `a search at ${n} from ${method}`;
      check(
        said(done.lines).join() === said(lines).join() &&
          done.lines.filter((l) => /^# read/.test(l)).join() ===
            lines.filter((l) => /^# read/.test(l)).join(),
        `${what} reads the same windows`,
        done.lines,
      );
      close(numbers(done.lines), numbers(lines), 1e-4, `${what}: its scores`);
      close(
        block(done.lines).long_factor,
        block(lines).long_factor,
        1e-9,
        `${what}: the divisors`,
      );
      const better = parts.filter((part) => part.divisors);
      close(
        better.at(-1).divisors,
        block(done.lines).long_factor,
        1e-12,
        `${what}: the last that was heard of is the best`,
      );
      check(
        better.every((part, i) => i === 0 || part.nll < better[i - 1].nll) &&
          Math.abs(better.at(-1).nll - numbers(lines)[1]) < 1e-4,
        `${what}: each is better than the one before`,
        better.map((part) => part.nll),
      );
      check(
        parts.every((p, i) => i === 0 || p.done >= parts[i - 1].done) &&
          parts.at(-1).done === 1,
        `${what}: progress`,
        parts.map((p) => p.done),
      );
    }
    // By mouse: the handles move, other panels' wishes are heard meanwhile, Stop keeps the best so far.
    const handles = () => page.evaluate(() => rope.own.yours().divisors);
    const button = page.locator("#fix button", { hasText: "Search" });
    await page.evaluate(() => rope.state.set("n", 600));
    await chip("fix", "plain").click();
    await page.waitForTimeout(200);
    await button.click();
    const stop = page.locator("#fix button", { hasText: "Stop the search" });
    await page.waitForFunction(() =>
      rope.own.yours().divisors.some((s) => s > 1.5),
    );
    const { nll } = await wish(page, "nll", {
      method: "none",
      text: BOOK,
      context: 100,
    });
    check(
      nll.length === 99 && (await stop.count()) === 1,
      "the other worker hears while a search runs",
    );
    await stop.click();
    await page.waitForTimeout(100);
    const kept = await handles();
    await page.waitForTimeout(600);
    check(
      (await stop.count()) === 0 &&
        kept.some((s) => s > 1.5) &&
        kept.join() === (await handles()).join(),
      "Stop leaves the handles where they are",
      kept,
    );
    check(
      /Best so far past 512: \d/.test(await text("#fix")),
      "and the score of the best so far",
    );
    await chip("fix", "plain").click();
    await page.waitForTimeout(200);
    await button.click();
    await until("#fix", /Past 512: .*In windows that it did not search/);
    const settings = (
      await page.locator("#fix .command code").first().textContent()
    ).match(/-n (\d+) --search-windows (\d+) --reads (\d+) -s (\d+)/);
    const lines = of(...settings.slice(1).map(Number), "none");
    close(
      await handles(),
      block(lines).long_factor,
      1e-9,
      "the handles stand where ./run's command has the divisors",
    );
    const told = (await text("#fix"))
      .match(/Past 512: .*/)[0]
      .match(/\d+\.\d+/g)
      .map(Number);
    const [began, best, yarn, judged] = numbers(lines).map(Math.exp);
    close(told, [best, began, judged, yarn], 0.01, "what the panel says of it");
    await page
      .locator("#fix")
      .screenshot({ path: join(PICTURES, "fix-search.png") });
    await page.evaluate(() => rope.state.set("n", 1024));
  },

  async race() {
    await page.locator("#race").scrollIntoViewIfNeeded();
    await chip("race", "1,024").click();
    await chip("race", "linear").focus();
    await page.keyboard.press("Enter");
    const go = page.locator("#race button.primary");
    await go.click();
    await page.waitForTimeout(300);
    await chip("race", "linear").click(); // another choice while it runs
    await page.waitForTimeout(100);
    check((await go.innerText()) === "Race", "another choice stops the race");
    await go.focus();
    await page.keyboard.press("Enter");
    await until("#race .status", /tokens\/s/);
    const rows = table(
      "model.bin",
      "--ppl",
      "page/book.txt",
      "-n",
      "1024",
      "--kv",
      "f32",
      "--rope",
      "none,yarn,window",
    );
    const cells = await page
      .locator("#race tbody tr")
      .evaluateAll((all) =>
        all.map((tr) => [...tr.cells].map((td) => td.innerText)),
      );
    for (const [i, method] of ["none", "yarn", "window"].entries())
      for (const [from, column] of [
        ["256", 2],
        ["512", 3],
      ]) {
        const ppl = +rows.find((r) => r.method === method && r.from === from)
          .ppl;
        check(
          Math.abs(+cells[i][column] - ppl) < 0.05 + 1e-3 * ppl,
          `the race's table, ${method} from ${from}`,
          `${cells[i]} ${ppl}`,
        );
      }
    await page.locator("#race .chart svg").focus();
    for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowRight");
    await page.waitForTimeout(80);
    check(
      /yarn/.test(await text("#race .readout")),
      "values under the cursor",
      await text("#race .readout"),
    );
    await page
      .locator("#race")
      .screenshot({ path: join(PICTURES, "race.png") });
    await page.locator("#race summary").click();
    const area = page.locator("#race textarea");
    await area.fill("x");
    await go.click();
    await until("#race .status", /tokens|short/);
    await area.fill(
      "\u0000\uFFFD\u{1F600} ñandú \\x00 <script>alert(1)</script> ".repeat(40),
    );
    await go.click();
    await until("#race .status", /tokens\/s/);
    await area.evaluate((a) => {
      a.value = "A long, long book. ".repeat(280000);
      a.dispatchEvent(new Event("input"));
    });
    check(
      /characters/.test(await text("#race .status")),
      "a text of 5 MB is said to be cut",
      await text("#race .status"),
    );
    await go.click();
    await until("#race .status", /tokens\/s/);
    await area.fill("");
    await page.waitForTimeout(100);
  },

  async hide_a_key() {
    await chip("key", "1,024").click();
    await page.locator("#key .needle").focus();
    const at = async () =>
      +(await page.locator("#key .needle").getAttribute("aria-valuenow"));
    const before = await at();
    await page.keyboard.press("PageUp");
    await page.waitForTimeout(60);
    check((await at()) === before + 10, "the needle by keyboard", await at());
    await dragTo(page.locator("#key .needle path"), -250);
    check((await at()) < before, "the needle by mouse", await at());
    await page.locator("#key input").fill("58213");
    for (const [name, right] of [
      ["yarn", true],
      ["window", false],
    ]) {
      await chip("key", name).click();
      await page.locator("#key button.primary").focus();
      await page.keyboard.press("Enter");
      await until(
        "#key > .status",
        right ? /Found, / : /out of the window|Not found/,
      );
      check(
        (await text("#key .digits")).startsWith("58213") === right,
        `${name} answers`,
        await text("#key .digits"),
      );
      if (right)
        await page
          .locator("#key")
          .screenshot({ path: join(PICTURES, "key.png") });
    }
    await page.locator("#key input").fill("12");
    await page.locator("#key button.primary").click();
    check(
      /five digits/.test(await text("#key > .status")),
      "a key of two digits is refused",
      await text("#key > .status"),
    );
    await page.locator("#key button", { hasText: "Run the grid" }).click();
    await page.waitForFunction(
      () => document.querySelectorAll("#key td:not(.ghost)").length >= 16,
      undefined,
      { timeout: 240000 },
    );
    await page.locator("#key button", { hasText: "Stop" }).click();
    const cells = await page
      .locator("#key .grid tbody tr:first-child td:not(.ghost)")
      .evaluateAll((all) => all.map((td) => td.className));
    const rows = table(
      "model.bin",
      "--passkey",
      "-n",
      "256",
      "--trials",
      "1",
      "-s",
      "1",
      "--kv",
      "f32",
      "--rope",
      "none,yarn:factor=8,window",
    );
    check(
      cells.length === 15 &&
        cells.every((c, i) => (c === "yes") === (rows[i].correct === "1")),
      "the grid at 256 is that of --passkey",
      cells,
    );
  },

  async your_model() {
    const area = page.locator("#model textarea");
    const example = async (name) => {
      await page.locator("#model button", { hasText: name }).first().click();
      await page.waitForTimeout(350);
    };
    await example("Qwen2.5");
    const file = join(tmpdir(), `rope-page-config-${process.pid}.json`);
    writeFileSync(file, await area.inputValue());
    const same = (a, b) =>
      a.replace(/\s+/g, " ").trim() === b.replace(/\s+/g, " ").trim();
    const said = run("--rope-json", "--rope-config", file, "-n", "131072");
    check(
      same(await text("#model pre"), said),
      "the block is --rope-json's",
      `${await text("#model pre")} / ${said}`,
    );
    await page
      .locator("#model")
      .screenshot({ path: join(PICTURES, "model.png") });
    await chip("model", "ntk").focus();
    await page.keyboard.press("Enter");
    await page.waitForTimeout(100);
    check(
      same(
        await text("#model pre"),
        run(
          "--rope-json",
          "--rope-config",
          file,
          "-n",
          "131072",
          "--rope",
          "ntk",
        ),
      ),
      "and with another method",
      await text("#model pre"),
    );
    await chip("model", "as it says").click();
    const shown = await page
      .locator("#model table.list tbody tr")
      .evaluateAll((all) =>
        all.map((tr) => [...tr.cells].map((td) => td.innerText).join(" ")),
      );
    check(
      shown.length === 3 &&
        /^context.* 32,768 131,072 ok$/s.test(shown[0]) &&
        /^reach.* 131,072 131,072 ok$/s.test(shown[1]) &&
        /^method.* yarn yarn ok$/s.test(shown[2]),
      "--check's rows about settings",
      shown,
    );
    const engines = ["--engines", "--rope-config", file, "-n", "131072"];
    let told;
    try {
      told = table(...engines);
    } catch (error) {
      told = tableOf(error.stdout.toString()); // status 1: some differ
    }
    const lines = await page.locator("#model .readings li").allInnerTexts();
    const others = told.filter((row) => row.verdict !== "same");
    check(
      others.length === 2 &&
        lines.length === others.length + 1 &&
        others.every((row) =>
          lines.some(
            (line) =>
              line.startsWith(row.engine) &&
              line.includes(row.note) &&
              line.includes(`Pair ${row.worst_pair} turns`),
          ),
        ) &&
        /^hf5, hf4, vllm, sglang, llama\.cpp, mlx-lm read it alike\.$/.test(
          lines.at(-1),
        ),
      "--engines's rows in a sentence each",
      lines,
    );
    const range = page.locator("#model input[type=range]");
    await range.focus();
    await page.keyboard.press("End");
    await page.waitForTimeout(100);
    check(
      /1048576 positions are/.test(await text("#model .warnings")),
      "a longer text than the factor reaches is warned about",
      await text("#model .warnings"),
    );
    for (const [bad, line] of [
      ['{"model_type": "gpt2", "n_embd": 768}', /model_type.*gpt2/],
      ["hello", /line 1/],
      ['{"rope_type": "yarn", "factor": "four"}', /factor/],
      ["[[[[[".repeat(100), /line 1/],
      [
        '{"rope_theta": 1e999, "factor": -1, "rope_type": "linear"}',
        /rope_theta|factor/,
      ],
      ["", /line|empty|JSON/],
    ]) {
      await area.fill(bad);
      await page.waitForTimeout(250);
      await until("#model .status", line).catch(() => {});
      check(
        line.test(await text("#model .status")),
        `refused with a line: ${bad.slice(0, 30)}`,
        await text("#model .status"),
      );
    }
    await example("a block alone");
    check(
      /linear/.test(await text("#model .numbers")) &&
        (await text("#model .status")) === "",
      "a block alone",
    );
    await example("Llama 3.1");
  },

  // Panel 13's verdicts on settings are those of ./run --check, for files that are right and files that are not.
  async settings() {
    const file = join(tmpdir(), `rope-page-settings-${process.pid}.json`);
    const whole = (positions, block) => ({
      ...{ model_type: "llama", hidden_size: 256, num_attention_heads: 4 },
      ...{ max_position_embeddings: positions, rope_theta: 10000 },
      rope_scaling: { original_max_position_embeddings: 512, ...block },
    });
    const lists = Array(32).fill(1.5);
    const longrope = { rope_type: "longrope", factor: 4, short_factor: lists };
    const llama3 = { low_freq_factor: 1, high_freq_factor: 4, factor: 2 };
    for (const [config, other, bad] of [
      [whole(2048, { rope_type: "yarn", factor: 4 }), "", ""],
      [whole(2048, { rope_type: "yarn", factor: 1 }), "", "context,reach"],
      [whole(512, { rope_type: "yarn", factor: 4 }), "ntk", "method"],
      [whole(512, { rope_type: "yarn", factor: 4 }), "window", "window,method"],
      [whole(512, { rope_type: "llama3", ...llama3 }), "", ""],
      [
        whole(2048, { ...longrope, long_factor: lists, attention_factor: 2 }),
        "",
        "temperature",
      ],
      [{ rope_type: "linear", factor: 1.1 }, "", "reach"],
      [{ rope_type: "dynamic", factor: 2 }, "dca", "method"],
    ]) {
      const words = JSON.stringify(config),
        what = `${words.slice(0, 60)} ${other}`;
      writeFileSync(file, words);
      const rows = await page.evaluate(
        ([words, other]) => {
          const page = rope.small.configure(words, 64, 10000, 512);
          page.plan(other, 600);
          const rows = page.judge(600);
          page.close();
          return rows;
        },
        [words, other],
      );
      let said;
      try {
        said = table(
          ...["model.bin", "--check", "-n", "600", "--budget", "1", "--tsv"],
          ...["--rope-config", file, ...(other ? ["--rope", other] : [])],
        );
      } catch (error) {
        said = tableOf(error.stdout.toString()); // a check that fails ends with 1
      }
      const settings = said.slice(
        0,
        said.findIndex((row) => row.check === "short-perplexity"),
      );
      // To the page the config is the model; ./run holds method, theta and context against model.bin's own.
      const of = (all) =>
        all
          .filter((r) => !["method", "theta", "train_ctx"].includes(r.check))
          .map((r) => `${r.check} ${r.value} ${r.limit} ${r.verdict}`)
          .join();
      check(of(rows) === of(settings), `--check: ${what}`, [
        of(rows),
        of(settings),
      ]);
      const failed = rows.filter((row) => row.verdict === "fail");
      check(
        rows.length > 0 && failed.map((row) => row.check).join() === bad,
        `what fails: ${what}`,
        of(rows),
      );
    }
  },

  async scores() {
    await page.locator("#scores button.primary").click();
    await until("#scores .numbers", /%/);
    const file = join(tmpdir(), `rope-page-scores-${process.pid}.txt`);
    writeFileSync(file, BOOK.slice(0, 5700));
    const rows = table(
      "model.bin",
      "--attn",
      "3.1",
      "--rope",
      "none",
      "--kv",
      "f32",
      "-n",
      "1536",
      "-f",
      file,
    );
    const found = await page.evaluate(
      async (text) => {
        const { heads } = await rope.engine.ask("scores", {
          model: "model",
          method: "none",
          text,
          context: 1536,
        }).promise;
        return Array.from(heads[3][1]);
      },
      BOOK.slice(0, 5700),
    );
    // the page reads the last token alone, ./run with its chunk: other sums, and other int8 roundings
    close(
      found,
      rows.map((r) => +r.score),
      0.05,
      "scores of layer 3, head 1",
    );
    const beyond =
      100 *
      rows.filter((r) => +r.distance >= 512).reduce((a, r) => a + +r.weight, 0);
    check(
      Math.abs(parseFloat(await text("#scores .numbers b")) - beyond) < 0.1,
      "the share of attention beyond 512",
      `${await text("#scores .numbers b")} ${beyond}`,
    );
    await chip("scores", "yarn").focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      () => document.querySelectorAll("#scores .numbers b").length === 2,
    );
    await chip("scores", "layer 5").click();
    await page
      .locator("#scores")
      .screenshot({ path: join(PICTURES, "scores.png") });
  },

  async temperature() {
    const slider = page.locator("#temper input[type=range]");
    await slider.focus();
    for (let i = 0; i < 10; i++) await page.keyboard.press("ArrowRight");
    await page.locator("#temper button", { hasText: "Measure" }).click();
    await page.waitForFunction(
      () =>
        /^[0-9]/.test(document.querySelector("#temper .numbers b").innerText),
      undefined,
      { timeout: 240000 },
    );
    const rows = table(
      "model.bin",
      "--ppl",
      "page/book.txt",
      "-n",
      "2048",
      "--kv",
      "f32",
      "--per-token",
      "--rope",
      "yarn:attn-factor=1.1",
    );
    const past = rows.filter((r) => +r.position >= 512),
      ppl = Math.exp(past.reduce((a, r) => a + +r.nll, 0) / past.length);
    check(
      Math.abs(
        +(await page.locator("#temper .numbers b").first().innerText()) - ppl,
      ) <
        0.006 + 1e-3 * ppl,
      "perplexity at a = 1.1",
      `${await text("#temper .numbers")} ${ppl}`,
    );
    await page.locator("#temper button", { hasText: "Try ten" }).click();
    await page.waitForTimeout(500);
    await page.locator("#temper button", { hasText: "Stop" }).click();
    await page
      .locator("#temper")
      .screenshot({ path: join(PICTURES, "temper.png") });
  },

  async same_page_twice() {
    await page.locator("#twice button", { hasText: "700 tokens" }).click();
    await page.locator("#twice button.primary").focus();
    await page.keyboard.press("Enter");
    await until("#twice .status", /forgotten/);
    const copies = (
      await page.locator("#twice p:has(b) span").allInnerTexts()
    ).map((t) => t.match(/[\d.]+/g).map(Number));
    check(
      copies.length === 3 &&
        copies[1][1] < copies[1][0] * 0.7 &&
        copies[2][1] > copies[2][0] * 0.9,
      "the window is surprised again, YaRN is not",
      JSON.stringify(copies),
    );
    await page.locator("#twice canvas").nth(1).focus();
    await page.keyboard.press("Shift+ArrowRight");
    check(
      /ln p/.test(await text("#twice .readout >> nth=1")),
      "a token under the cursor",
    );
    await page
      .locator("#twice")
      .screenshot({ path: join(PICTURES, "twice.png") });
  },

  async stale_keys() {
    await page.locator("#stale input[type=range]").focus();
    await page.keyboard.press("End");
    await page.waitForTimeout(80);
    check(
      /1,280 is turned at scale 2\.5/.test(
        await text("#stale .readout >> nth=0"),
      ),
      "the scale at 1,280",
    );
    const n = 700;
    for (const stale of [false, true]) {
      const { nll } = await wish(page, "steps", {
        method: "dynamic-ntk",
        text: BOOK,
        context: n,
        stale,
      });
      const rows = table(
        "model.bin",
        "--ppl",
        "page/book.txt",
        "-n",
        String(n),
        "--kv",
        "f32",
        "--per-token",
        "--stepwise",
        ...(stale ? ["--stale-keys"] : []),
        "--rope",
        "dynamic-ntk",
      );
      close(
        nll,
        rows.map((r) => +r.nll),
        1e-3,
        `token by token${stale ? " with stale keys" : ""}`,
      );
    }
    await page.locator("#stale button.primary").click();
    await page.waitForTimeout(1000);
    await page.locator("#stale button.primary").click();
    await page
      .locator("#stale")
      .screenshot({ path: join(PICTURES, "stale.png") });
  },

  async distances() {
    for (const name of [
      "rerope",
      "leaky-rerope",
      "self-extend",
      "dca",
      "streaming",
      "lm-infinite",
    ]) {
      await chip("maps", name).click();
      await page.waitForTimeout(60);
      check(
        (await text("#maps")).includes("No distance is new") ||
          name === "lm-infinite",
        `${name} meets no new distance`,
        await text("#maps .fine"),
      );
    }
    await page.locator("#maps canvas").focus();
    await page.keyboard.press("Shift+ArrowUp");
    await page.waitForTimeout(60);
    check(
      /^Query 1,\d{3}, key 11/.test(await text("#maps .readout")),
      "a pair by keyboard",
      await text("#maps .readout"),
    );
    await chip("maps", "self-extend").click();
    await page
      .locator("#maps")
      .screenshot({ path: join(PICTURES, "maps.png") });
    const rows = table(
      "model.bin",
      "--ppl",
      "page/book.txt",
      "-n",
      "1024",
      "--per-token",
      "--kv",
      "f32",
      "--rope",
      "dca",
    );
    const { nll } = await wish(page, "nll", {
      method: "dca",
      text: BOOK,
      context: 1024,
    });
    close(
      nll,
      rows.map((r) => +r.nll),
      1e-3,
      "-ln p with dca",
    );
  },

  async tuned() {
    check(
      !page.asked.some((u) => u.includes("8k")),
      "the second model has not been fetched yet",
    );
    await page.locator("#tuned button.primary").click();
    await until("#tuned .status", /Reading/);
    check(
      page.asked.some((u) => u.includes("8k")),
      "now it has",
    );
    const found = await page.evaluate(async (text) => {
      const parts = [];
      await rope.engine.ask(
        "nll",
        { model: "model-8k", method: "yarn:factor=16", text, context: 300 },
        (p) => parts.push(...p.nll),
      ).promise;
      return parts;
    }, BOOK);
    const rows = table(
      "model-8k.bin",
      "--ppl",
      "page/book.txt",
      "-n",
      "300",
      "--per-token",
      "--kv",
      "f32",
      "--rope",
      "yarn:factor=16",
    );
    close(
      found,
      rows.map((r) => +r.nll),
      1e-3,
      "the tuned model reads as ./run",
    );
    await page.evaluate(() => rope.engine.restart("for the test"));
    await until("#tuned .status", /started again/);
  },

  async your_method() {
    const field = page.locator("#formula input");
    await field.fill("plain / s");
    await page.waitForTimeout(100);
    check(
      /p->plain \/ p->scale;/.test(await text("#formula pre")),
      "the C line",
      await text("#formula pre"),
    );
    for (const [bad, line] of [
      ["plain /", /ends too early/],
      ["plain / q", /no q/],
      ["alert(1)", /no function alert/],
      ["plain * 0", /above 0 expected/],
      ["((".repeat(500), /nested/],
      ["constructor(plain)", /no function/],
      ["plain ; 1", /cannot be read/],
      ["log(plain, s)", /takes 1/],
    ]) {
      await field.fill(bad);
      await page.waitForTimeout(80);
      check(
        line.test(await text("#formula .status")),
        `a bad formula: ${bad.slice(0, 20)}`,
        await text("#formula .status"),
      );
    }
    await field.fill("plain / s^((2*i/d)^2)");
    await page.waitForTimeout(100);
    await field.fill("turns < 1 ? plain / s : plain");
    await page.waitForTimeout(100);
    const divisors = await page.evaluate(() => rope.own.mine().divisors);
    const s = await page.evaluate(() => rope.state.get("n") / 512);
    check(
      divisors.filter((x) => Math.abs(x - s) < 1e-9).length === 16 &&
        divisors.filter((x) => x === 1).length === 16,
      "the formula's divisors",
      divisors,
    );
    await page
      .locator("#formula")
      .screenshot({ path: join(PICTURES, "formula.png") });
  },

  // What cannot be had is said, and the program goes on.
  async refusals() {
    const refused = (name, data) =>
      page.evaluate(
        ([name, data]) =>
          rope.engine.ask(name, { model: "model", ...data }).promise.then(
            () => "it went well",
            (e) => e.message,
          ),
        [name, data],
      );
    check(
      /memory/.test(
        await refused("write", {
          method: "none",
          prompt: "a",
          context: 5e8,
          temperature: 1,
          topP: 0.9,
          seed: 1,
        }),
      ),
      "memory that cannot be had",
      await refused("write", {
        method: "none",
        prompt: "a",
        context: 5e8,
        temperature: 1,
        topP: 0.9,
        seed: 1,
      }),
    );
    check(
      /no method/.test(
        await refused("nll", {
          method: "yam",
          text: "a b c d e",
          context: 100,
        }),
      ),
      "no such method",
    );
    check(
      /short/.test(
        await refused("nll", { method: "none", text: "", context: 100 }),
      ),
      "an empty text",
    );
    check(
      /factor/.test(
        await refused("nll", {
          method: "yarn:factor=-3",
          text: "a b c",
          context: 100,
        }),
      ),
      "a factor below 0",
    );
    check(
      /started again/.test(await refused("nonsense", {})),
      "what stops the worker is said",
    );
    const { nll } = await wish(page, "nll", {
      method: "none",
      text: BOOK,
      context: 70,
    });
    check(nll.length === 69, "and there is a new worker", nll.length);
    const both = await page.evaluate(async () => {
      const ask = () =>
        rope.engine.ask("nll", {
          model: "model",
          method: "yarn",
          text: "one two three ".repeat(400),
          context: 900,
        });
      const jobs = Array.from({ length: 12 }, ask);
      for (const job of jobs.slice(0, 11)) job.cancel();
      const ends = await Promise.allSettled(jobs.map((job) => job.promise));
      return ends.map((e) => e.status);
    });
    check(
      both.filter((s) => s === "rejected").length === 11 &&
        both[11] === "fulfilled",
      "eleven changes of mind",
      both,
    );
  },

  async address() {
    const p = await open(
      browser,
      `${url}#n=abc&race=yarn,window&seed=11&at=1500`,
      { ready: false },
    );
    check(
      /n=abc in the address is not a whole number/.test(
        await p.locator("#boot").innerText(),
      ),
      "a bad address is said",
    );
    check(
      (await p.locator("#race .chip[aria-pressed=true]").count()) >= 2,
      "the race is as the address says",
    );
    check(
      (await p.locator("#break input[type=number]").inputValue()) === "11",
      "the seed is as the address says",
    );
    check(
      /1,500/.test(await p.locator("#clocks .numbers").innerText()),
      "the clocks are as the address says",
    );
    await p.close();
  },

  async background_tab() {
    const p = await open(browser, `${url}#n=1024&race=yarn`);
    const other = await browser.newPage();
    await p.evaluate(() => {
      globalThis.frames0 = requestAnimationFrame;
      globalThis.requestAnimationFrame = () => 0;
    });
    await p.locator("#race button.primary").evaluate((b) => b.click());
    await other.bringToFront();
    await p.waitForFunction(
      () =>
        /tokens\/s/.test(document.querySelector("#race .status").textContent),
      undefined,
      { polling: 200 },
    );
    check(true, "a race ends in the background");
    await other.close();
    await p.close();
  },

  async one_file() {
    const p = await open(browser, `file://${join(PAGE, "rope.html")}`);
    const { nll } = await wish(p, "nll", {
      method: "yarn",
      text: BOOK,
      context: 200,
    });
    const rows = table(
      "model.bin",
      "--ppl",
      "page/book.txt",
      "-n",
      "200",
      "--per-token",
      "--kv",
      "f32",
      "--rope",
      "yarn",
    );
    close(
      nll,
      rows.map((r) => +r.nll),
      1e-3,
      "rope.html from disk reads as ./run",
    );
    check(p.complaints.length === 0, "rope.html: no complaint", p.complaints);
    check(
      p.asked.filter((u) => !/^(blob|data):/.test(u)).length === 1,
      "rope.html asks for nothing",
      p.asked,
    );
    await p.close();
  },

  // A phone, the dark, and whether everything can be reached and has a name.
  async looks() {
    for (const [name, options] of [
      ["phone", { viewport: { width: 360, height: 740 } }],
      ["dark", { colorScheme: "dark" }],
      [
        "phone-dark",
        { viewport: { width: 360, height: 740 }, colorScheme: "dark" },
      ],
    ]) {
      const p = await open(browser, url, options);
      const wide = await p.evaluate(() => [
        document.documentElement.scrollWidth,
        innerWidth,
      ]);
      check(
        wide[0] <= wide[1],
        `${name}: nothing is wider than the screen`,
        wide,
      );
      await p.waitForTimeout(1500);
      await p.screenshot({
        path: join(PICTURES, `${name}.png`),
        fullPage: true,
      });
      check(p.complaints.length === 0, `${name}: no complaint`, p.complaints);
      await p.close();
    }
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll('button, input, textarea, [tabindex="0"]')]
        .filter(
          (e) =>
            !(
              e.innerText ||
              e.ariaLabel ||
              e.getAttribute("aria-label") ||
              e.labels?.length ||
              e.title ||
              e.textContent.trim()
            ),
        )
        .map((e) => e.outerHTML.slice(0, 80)),
    );
    check(
      nameless.length === 0,
      "all that can be operated has a name",
      nameless,
    );
  },

  async complaints() {
    check(
      page.complaints.length === 0,
      "no error in the console",
      page.complaints,
    );
    const away = page.asked.filter(
      (u) => !u.startsWith(url) && !/^(blob|data):/.test(u),
    );
    check(away.length === 0, "no request leaves the page", away);
  },
};

process.on("exit", () => server.close());
await main(tests, process.argv.slice(2));
