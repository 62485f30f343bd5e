/* page.mjs PORT CHROMIUM [PICTURE.png] - the page in a headless browser: type, stream, stop, settings,
 * slots, keyboard, phone width, dark; nothing on its console. With a name, pictures of it too. */
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
/* An answer that has no end of its own, so that there is something to stop. */
await page.setRequestInterception(true);
const bodies = [];
let isEndless = true;
page.on('request', (request) => {
  if (request.method() !== 'POST') return request.continue();
  const body = JSON.parse(request.postData());
  bodies.push(body);
  return request.continue({ postData: JSON.stringify({ ...body, ignore_eos: isEndless }) });
});
const grows = (n) => page.waitForFunction((wanted) => {
  const all = document.querySelectorAll('.message.assistant .text');
  return all.length === wanted && all[wanted - 1].textContent.length > 30;
}, {}, n);
const busy = (n) => page.waitForFunction((wanted) =>
  [...document.querySelectorAll('#slots tr')].filter((row) => !row.textContent.includes('idle'))
    .length === wanted, {}, n);
await page.$eval('#max_tokens', (e) => { e.value = 1900; });
await page.type('#input', 'Go on, and on, and on.');
await page.keyboard.press('Enter');
await grows(2);
assert.equal(await text('#send'), 'Stop');
await busy(1);
if (picture) await page.screenshot({ path: picture });
await page.keyboard.press('Escape');
await waitAnswers(2);
assert.equal((await answers())[1], 'stopped');
assert.equal(await text('#send'), 'Send');
await busy(0);
assert.match(await text('#figures'), /Waiting.*Busy slots.*KV pages/);
await page.$eval('#temperature', (e) => { e.value = -1; });
await page.type('#input', 'No.');
await page.click('#send');
await waitAnswers(3);
assert.match((await answers())[2], /temperature/);
assert.equal(await page.$eval('#input', (e) => e.value), 'No.'); // to be sent again
const look = async (name, value) => {
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
  if (picture) await page.screenshot({ path: picture.replace('.png', `-${name}.png`) });
};
await look('light', 'light');
await look('dark', 'dark');
await page.setViewport({ width: 380, height: 720 });
await look('phone-light', 'light');
await look('phone-dark', 'dark');
const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
assert.equal(wide, false);
/* A new chat in the middle of an answer: nothing of it comes back. */
await page.$eval('#temperature', (e) => { e.value = 0.5; });
await page.type('#input', 'Once more.');
await page.keyboard.press('Enter');
await grows(4);
await page.click('#clear');
await busy(0);
assert.equal((await answers()).length, 0);
isEndless = false;
await page.$eval('#max_tokens', (e) => { e.value = 4; });
await page.type('#input', 'Hello.');
await page.keyboard.press('Enter');
await waitAnswers(1);
assert.deepEqual(bodies.at(-1).messages, [{ role: 'user', content: 'Hello.' }]);
/* The refused request is reported by the browser; nothing else may be. */
assert.deepEqual(complaints.filter((c) => !c.includes('400')), []);
await browser.close();
console.log('page: ok');
