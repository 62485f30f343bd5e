/* page.mjs PORT CHROMIUM [SCREENSHOT] - the page in a headless browser: type, stream, stop, settings,
 * slots, keyboard, phone width, dark; nothing on its console. */
import assert from 'node:assert/strict';
import puppeteer from 'puppeteer-core';

const [port, executablePath, picture] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath, args: ['--no-sandbox'] });
const page = await browser.newPage();
const complaints = [];
page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
page.on('pageerror', (error) => complaints.push(String(error)));
await page.setViewport({ width: 1100, height: 800 });
await page.goto(`http://127.0.0.1:${port}/`);
await page.waitForFunction(() => document.querySelector('#model').textContent.length > 3);
const text = (selector) => page.$eval(selector, (e) => e.textContent);
const answers = () => page.$$eval('.message.assistant footer', (all) => all.map((e) => e.textContent));
const waitAnswers = (n) => page.waitForFunction((wanted) => {
  const all = [...document.querySelectorAll('.message.assistant footer')];
  return all.length === wanted && all[wanted - 1].textContent !== '';
}, {}, n);

await page.$eval('#max_tokens', (e) => { e.value = 40; });
await page.$eval('#seed', (e) => { e.value = 7; });
await page.type('#input', 'Tell me a story.');
await page.keyboard.press('Enter');
await waitAnswers(1);
assert.match((await answers())[0], /tokens, .* per second, seed 7/);
await page.$eval('#max_tokens', (e) => { e.value = 1900; });
await page.type('#input', 'Go on, and on, and on.');
await page.keyboard.press('Enter');
await page.waitForFunction(() => document.querySelector('#send').textContent === 'Stop');
await page.keyboard.press('Escape');
await waitAnswers(2);
assert.match((await answers())[1], /stopped|tokens/);
await page.waitForFunction(() => document.querySelectorAll('#slots tr').length > 0);
assert.match(await text('#figures'), /Waiting.*Busy slots.*KV pages/);
await page.$eval('#temperature', (e) => { e.value = -1; });
await page.type('#input', 'No.');
await page.click('#send');
await waitAnswers(3);
assert.match((await answers())[2], /temperature/);
if (picture) await page.screenshot({ path: picture });
await page.setViewport({ width: 380, height: 720 });
await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }]);
const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
assert.equal(wide, false);
if (picture) await page.screenshot({ path: picture.replace('.png', '-phone.png') });
await page.click('#clear');
assert.equal((await answers()).length, 0);
/* The refused request is reported by the browser; nothing else may be. */
assert.deepEqual(complaints.filter((c) => !c.includes('400')), []);
await browser.close();
console.log('page: ok');
