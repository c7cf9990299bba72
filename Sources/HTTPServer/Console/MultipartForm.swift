/// Parses the body of a form with files.
///
/// - Source: RFC 7578, "Returning Values from Forms: multipart/form-data"; RFC 2046, section 5.1.1.
enum MultipartForm {
    struct Part {
        let name: String
        /// Whether the browser sent it as a file, even if none was chosen.
        let isFile: Bool
        let content: ArraySlice<UInt8>
    }

    /// Most fields of a form; a body of delimiters alone would otherwise be as many parts as it has lines.
    private static let partsMax = 32
    private static let headerBytesMax = 4096

    /// The boundary that a `Content-Type` names; nil if the type is another one.
    static func boundary(_ contentType: String) -> String? {
        let parts = contentType.split(separator: ";").map { $0.drop { $0 == " " } }
        guard parts.first?.lowercased() == "multipart/form-data" else { return nil }
        for part in parts.dropFirst() {
            let pair = part.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, pair[0].lowercased() == "boundary" else { continue }
            let value = pair[1].filter { $0 != "\"" }
            return (1...70).contains(value.utf8.count) ? value : nil
        }
        return nil
    }

    /// Nil if the body is not made of parts.
    static func parse(_ body: [UInt8], boundary: String) -> [Part]? {
        let delimiter = Array("--\(boundary)".utf8)
        guard body.starts(with: delimiter) else { return nil }
        var parts: [Part] = []
        var rest = body[delimiter.count...]
        while !rest.starts(with: "--".utf8) {
            guard parts.count < partsMax, let content = line(after: &rest), content.isEmpty,
                let part = part(&rest, Array("\r\n".utf8) + delimiter)
            else { return nil }
            parts.append(part)
        }
        return parts
    }

    /// A part from its header on, up to the next delimiter.
    private static func part(_ rest: inout ArraySlice<UInt8>, _ delimiter: [UInt8]) -> Part? {
        var name: String?
        var isFile = false
        var headerBytes = 0
        while let header = line(after: &rest) {
            guard !header.isEmpty else {
                guard let name, let end = firstRange(of: delimiter, in: rest) else { return nil }
                let content = rest[rest.startIndex..<end.lowerBound]
                rest = rest[end.upperBound...]
                return Part(name: name, isFile: isFile, content: content)
            }
            headerBytes += header.count
            guard headerBytes <= headerBytesMax, let text = String(validating: header, as: UTF8.self) else {
                return nil
            }
            guard text.lowercased().hasPrefix("content-disposition:") else { continue }
            name = parameter("name", of: text)
            isFile = parameter("filename", of: text) != nil
        }
        return nil
    }

    /// Browsers write a quote within a name as `%22`.
    private static func parameter(_ name: String, of header: String) -> String? {
        for part in header.split(separator: ";").dropFirst() {
            let pair = part.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, pair[0].lowercased() == name else { continue }
            return String(pair[1].filter { $0 != "\"" })
        }
        return nil
    }

    /// The bytes up to the next line end; nil if there is none.
    private static func line(after rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let end = firstRange(of: Array("\r\n".utf8), in: rest) else { return nil }
        defer { rest = rest[end.upperBound...] }
        return rest[rest.startIndex..<end.lowerBound]
    }

    private static func firstRange(of bytes: [UInt8], in text: ArraySlice<UInt8>) -> Range<Int>? {
        var rest = text
        while let index = rest.firstIndex(ofByte: bytes[0]) {
            if text[index...].starts(with: bytes) { return index..<index + bytes.count }
            rest = text[(index + 1)...]
        }
        return nil
    }
}
