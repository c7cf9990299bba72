import Foundation

/// Connections to ports of this machine.
enum LoopbackSocket {
    /// - Throws: If the connection is refused.
    static func connect(port: Int) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.address(port: port)
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else {
            close(descriptor)
            throw BenchError("connection to port \(port) refused")
        }
        return descriptor
    }

    /// Sends a request and returns the status of its answer; 0 if there is none.
    static func post(_ request: [UInt8], port: Int) -> Int {
        guard let descriptor = try? connect(port: port) else { return 0 }
        defer { close(descriptor) }
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else { return 0 }
        var received: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 2048)
        while true {
            let count = recv(descriptor, &part, part.count, 0)
            guard count > 0 else { return 0 }
            received += part[..<count]
            if let answer = HTTPResponseText(received) { return answer.status }
        }
    }

    private static func address(port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }
}

/// A complete answer of the server. It is parsed from bytes: the bench shares the processors with the server, and Unicode
/// text would take as much time as the server's own work.
struct HTTPResponseText {
    let status: Int
    /// The position in a 200.
    let position: Int64?
    /// The server closes the connection after this answer.
    let isLast: Bool

    /// Nil if the answer is incomplete.
    init?(_ bytes: [UInt8]) {
        guard let end = Self.end(of: "\r\n\r\n", in: bytes[...]) else { return nil }
        let head = bytes[..<end]
        // Header names as NIO writes them.
        guard let length = Self.number(after: "Content-Length: ", in: head),
            bytes.count - end >= length,
            let status = Self.number(after: "HTTP/1.1 ", in: head)
        else { return nil }
        self.status = Int(status)
        isLast = Self.end(of: "Connection: close", in: head) != nil
        position = Self.number(after: "\"position\":", in: bytes[end...])
    }

    private static func number(after name: StaticString, in bytes: ArraySlice<UInt8>) -> Int64? {
        guard let start = end(of: name, in: bytes) else { return nil }
        let digits = bytes[start...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return Int64(String(decoding: digits, as: UTF8.self))
    }

    /// The index of the first byte after the text.
    private static func end(of text: StaticString, in bytes: ArraySlice<UInt8>) -> Int? {
        let length = text.utf8CodeUnitCount
        return bytes.withUnsafeBytes { buffer -> Int? in
            guard let base = buffer.baseAddress, length <= buffer.count else { return nil }
            let place = (0...buffer.count - length).first { memcmp(base + $0, text.utf8Start, length) == 0 }
            return place.map { bytes.startIndex + $0 + length }
        }
    }
}
