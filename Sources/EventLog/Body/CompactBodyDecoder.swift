import Encoding

/// Reads the form of ``CompactBody``, and trusts no length in it.
struct CompactBodyDecoder {
    let stored: [UInt8]

    func append(
        _ range: Range<Int>, to output: inout [UInt8], depth: Int, header: ([UInt8]) -> [UInt8]?
    ) throws(DamagedBody) {
        guard depth <= CompactBody.depthMax else { throw .form }
        var position = range.lowerBound
        while position < range.upperBound {
            guard let part = CompactBody.Part(rawValue: stored[position]) else { throw .form }
            position += 1
            switch part {
            case .bytes:
                output += stored[try take(lengthAt: &position, within: range)]
            case .base64:
                var bytes: [UInt8] = []
                try append(
                    try take(lengthAt: &position, within: range), to: &bytes, depth: depth + 1, header: header)
                Base64.append(bytes[...], .standard, to: &output)
            case .jws:
                let digest = Array(stored[try take(32, at: &position, within: range)])
                guard let head = header(digest) else { throw .headerMissing }
                var payload: [UInt8] = []
                try append(
                    try take(lengthAt: &position, within: range), to: &payload, depth: depth + 1, header: header)
                output += head
                output.append(UInt8(ascii: "."))
                Base64.append(payload[...], .url, to: &output)
                output.append(UInt8(ascii: "."))
                Base64.append(stored[try take(64, at: &position, within: range)], .url, to: &output)
            }
        }
    }

    /// Adds the digests of the headers that the parts refer to, up to one that cannot be read.
    func addHeaders(
        of range: Range<Int>, to digests: inout Set<[UInt8]>, depth: Int = 0
    ) throws(DamagedBody) {
        guard depth <= CompactBody.depthMax else { throw .form }
        var position = range.lowerBound
        while position < range.upperBound {
            guard let part = CompactBody.Part(rawValue: stored[position]) else { throw .form }
            position += 1
            if part == .jws { digests.insert(Array(stored[try take(32, at: &position, within: range)])) }
            let content = try take(lengthAt: &position, within: range)
            if part != .bytes { try addHeaders(of: content, to: &digests, depth: depth + 1) }
            if part == .jws { _ = try take(64, at: &position, within: range) }
        }
    }

    private func take(_ count: Int, at position: inout Int, within range: Range<Int>) throws(DamagedBody) -> Range<Int>
    {
        guard count <= range.upperBound - position else { throw .form }
        defer { position += count }
        return position..<(position + count)
    }

    private func take(lengthAt position: inout Int, within range: Range<Int>) throws(DamagedBody) -> Range<Int> {
        let length = stored[try take(3, at: &position, within: range)].reduce(0) { $0 << 8 | Int($1) }
        return try take(length, at: &position, within: range)
    }
}
