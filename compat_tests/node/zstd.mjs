// Zstandard as node:zlib has it from Node 22.15 on, or by WebAssembly on an older one.

import zlib from 'node:zlib'
import { createRequire } from 'node:module'

/** {compress, decompress} of buffers. Also put into node:zlib where that lacks them: @platformatic/kafka looks for them there. */
export async function zstd() {
  if (!zlib.zstdCompressSync) {
    const wasm = createRequire(import.meta.url)('@bokuweb/zstd-wasm')
    await wasm.init()
    zlib.zstdCompressSync = (data) => Buffer.from(wasm.compress(data))
    zlib.zstdDecompressSync = (data) => Buffer.from(wasm.decompress(data))
  }
  return { compress: zlib.zstdCompressSync, decompress: zlib.zstdDecompressSync }
}
