// Takes docs/figures/page.png: make page-picture, or node tools/figures/page_picture.mjs OUT.png after make page. The page's head
// and its first chapter, whole, with two pixels for each of the page's, in headless Chromium.
import { join } from 'node:path';
import { ROOT, launch, open, serve } from '../../tests/page/browser.mjs';

const WIDTH = 1100;
const out = process.argv[2] ?? join(ROOT, 'docs/figures/page.png');
const { server, url } = await serve();
const browser = await launch();
const options = { more: false, deviceScaleFactor: 2, viewport: { width: WIDTH, height: 1000 } };
const page = await open(browser, url, options);
await page.evaluate(() => document.fonts.ready);
const { y, height } = await page.locator('#panels section').first().boundingBox();
await page.screenshot({ path: out, fullPage: true, clip: { x: 0, y: 0, width: WIDTH, height: Math.ceil(y + height) } });
await browser.close();
server.close();
console.log(`page: ${out}`);
