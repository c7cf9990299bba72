import Foundation

/// A file of HTTP requests for `send.lua`, each preceded by its length in eight digits.
struct RequestFile: Sendable {
    let path: String
    /// The byte range of each request in the file, without its length prefix.
    let ranges: [Range<Int>]

    private static let lengthDigits = 8

    /// The offset of a request's length prefix.
    func offset(of number: Int) -> Int { number < ranges.count ? ranges[number].lowerBound - Self.lengthDigits : 0 }

    /// - Parameter headers: Further ones, each as one line.
    static func request(
        _ body: [UInt8], target: String = "/apple/notifications", headers: [String] = []
    ) -> [UInt8] {
        let more = headers.map { $0 + "\r\n" }.joined()
        let head = """
            POST \(target) HTTP/1.1\r
            Host: localhost\r
            \(more)Content-Type: application/json\r
            Content-Length: \(body.count)\r
            \r

            """
        return Array(head.utf8) + body
    }

    /// The length of a request's head.
    static func headBytes(_ request: [UInt8]) -> Int {
        let end = Array("\r\n\r\n".utf8)
        let found = request.indices.first { request[$0...].starts(with: end) }
        return found.map { $0 + end.count } ?? request.count
    }

    /// Writes a file sequentially.
    struct Writer {
        private let path: String
        private let handle: FileHandle
        private let target: String
        private let headers: [String]
        private var ranges: [Range<Int>] = []
        private var end = 0
        private var pending = Data()

        init(path: String, target: String = "/apple/notifications", headers: [String] = []) throws {
            guard FileManager.default.createFile(atPath: path, contents: nil),
                let handle = FileHandle(forWritingAtPath: path)
            else { throw BenchError("cannot write \(path)") }
            self.path = path
            self.handle = handle
            self.target = target
            self.headers = headers
        }

        var count: Int { ranges.count }

        mutating func append(_ body: [UInt8]) throws {
            let request = RequestFile.request(body, target: target, headers: headers)
            let digits = String(request.count)
            pending.append(contentsOf: String(repeating: "0", count: lengthDigits - digits.utf8.count).utf8)
            pending.append(contentsOf: digits.utf8)
            pending.append(contentsOf: request)
            ranges.append(end + lengthDigits..<end + lengthDigits + request.count)
            end += lengthDigits + request.count
            if pending.count > 4 << 20 { try flush() }
        }

        private mutating func flush() throws {
            try handle.write(contentsOf: pending)
            pending.removeAll(keepingCapacity: true)
        }

        mutating func finish() throws -> RequestFile {
            try flush()
            try handle.close()
            return RequestFile(path: path, ranges: ranges)
        }
    }
}
