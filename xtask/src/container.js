// Makes a container in Azurite, whose account and key are the same everywhere: PORT NAME.
const crypto = require('crypto')
const http = require('http')
const [port, name] = process.argv.slice(-2)
const account = 'devstoreaccount1'
const key = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
const date = new Date().toUTCString()
const version = '2021-08-06'
// Eleven headers that are not sent, then those of Microsoft, the place, and the query.
const signed = ['PUT', ...Array(11).fill(''), `x-ms-date:${date}`, `x-ms-version:${version}`, `/${account}/${account}/${name}`, 'restype:container']
const seal = crypto.createHmac('sha256', Buffer.from(key, 'base64')).update(signed.join('\n')).digest('base64')
const headers = { 'x-ms-date': date, 'x-ms-version': version, 'content-length': 0, authorization: `SharedKey ${account}:${seal}` }
const request = http.request({ host: '127.0.0.1', port, method: 'PUT', path: `/${account}/${name}?restype=container`, headers }, (answer) => {
  answer.pipe(process.stderr)
  process.exitCode = answer.statusCode === 201 ? 0 : 1
})
request.on('error', (why) => { console.error(String(why)); process.exitCode = 1 })
request.end()
