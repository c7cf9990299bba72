import Encoding

/// The text of a report in UTF-8, whichever encoding the store chose.
enum ReportText {
    /// Returns what reads the next piece, which is empty at the end. A byte order mark is left out.
    ///
    /// - Throws: What reading the content throws. Reading a piece throws `CSVRecords.Malformed` too.
    static func pieces(of content: PackedFile) throws -> () throws -> [UInt8] {
        var waiting: [UInt8] = []
        while waiting.count < 3 {
            let piece = try content.read()
            if piece.isEmpty { break }
            waiting += piece
        }
        let isLittleEndian = waiting.starts(with: [0xFF, 0xFE])
        let isUTF16 = isLittleEndian || waiting.starts(with: [0xFE, 0xFF])
        if isUTF16 {
            waiting.removeFirst(2)
        } else if waiting.starts(with: [0xEF, 0xBB, 0xBF]) {
            waiting.removeFirst(3)
        }
        let next = { () throws -> [UInt8] in
            guard !waiting.isEmpty else { return try content.read() }
            defer { waiting = [] }
            return waiting
        }
        guard isUTF16 else { return next }
        var rest: [UInt8] = []
        return {
            while true {
                let piece = try next()
                if piece.isEmpty {
                    guard rest.isEmpty else { throw invalid }
                    return []
                }
                let text = try utf8(rest + piece, isLittleEndian, &rest)
                if !text.isEmpty { return text }
            }
        }
    }

    private static let invalid = CSVRecords.Malformed(line: 1, problem: "the text is not valid UTF-16")

    /// - Parameter rest: Becomes the bytes at the end that are half a character.
    private static func utf8(
        _ bytes: [UInt8], _ isLittleEndian: Bool, _ rest: inout [UInt8]
    ) throws(CSVRecords.Malformed) -> [UInt8] {
        var units = (0..<bytes.count / 2).map { unit -> UInt16 in
            let pair = (UInt16(bytes[2 * unit]), UInt16(bytes[2 * unit + 1]))
            return isLittleEndian ? pair.0 | pair.1 << 8 : pair.0 << 8 | pair.1
        }
        if let last = units.last, UTF16.isLeadSurrogate(last) { units.removeLast() }
        rest = Array(bytes[(2 * units.count)...])
        guard let text = String(validating: units, as: UTF16.self) else { throw invalid }
        return Array(text.utf8)
    }
}
