import Foundation
import Synchronization

/// An HTTP request to a listener on this machine, over a connection of its own. No redirect is followed, and no cookie is kept.
///
/// `URLSession` keeps a processor busy on Linux while it waits for the response of such a request: a sixth of the processor time
/// of the tests of routes.
package struct LocalRequest: Sendable {
    private let port: Int
    private let method: String
    /// The path and the query, percent-encoded.
    private let target: String
    private let headers: [String: String]
    private let body: [UInt8]?

    /// - Parameter path: With the query. What a URL may not contain is percent-encoded.
    /// - Throws: If the path makes no URL.
    package init(port: Int, _ method: String, _ path: String, headers: [String: String], body: [UInt8]?) throws {
        let base = "http://127.0.0.1:\(port)"
        guard let url = URL(string: base + path) else { throw POSIXError(.EINVAL) }
        let target = url.absoluteString.dropFirst(base.count).prefix { $0 != "#" }
        self.port = port
        self.method = method
        self.target = target.hasPrefix("/") ? String(target) : "/\(target)"
        self.headers = headers
        self.body = body
    }

    /// Sends it and waits for the whole response.
    ///
    /// - Throws: If there is none, if nothing arrives for 30 seconds, or if the task is cancelled.
    package func send() async throws -> HTTPAnswer {
        let exchange = Exchange()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // A thread of its own may wait: those of tasks are as few as there are processors.
                Thread.detachNewThread {
                    continuation.resume(
                        with: Result { try exchange.answer(to: port, bytes, isWithoutBody: method == "HEAD") })
                }
            }
        } onCancel: {
            exchange.cancel()
        }
    }

    private var bytes: [UInt8] {
        var fields = headers
        let names = Set(headers.keys.map { $0.lowercased() })
        let usual: [String: String?] = [
            "Host": "127.0.0.1:\(port)", "Accept": "*/*", "Connection": "close",
            "Content-Length": body == nil && method != "POST" && method != "PUT" ? nil : "\(body?.count ?? 0)",
        ]
        for (name, value) in usual where !names.contains(name.lowercased()) { fields[name] = value }
        let lines = fields.map { "\($0.key): \($0.value)\r\n" }.joined()
        return Array("\(method) \(target) HTTP/1.1\r\n\(lines)\r\n".utf8) + (body ?? [])
    }
}

/// The connection of one request. Its thread waits in the system; ``cancel()`` ends that.
private final class Exchange: Sendable {
    private struct State {
        /// Nil before the connection is made, and after it was closed.
        var descriptor: Int32?
        var isCancelled = false
    }

    private let state = Mutex(State())

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            if let descriptor = state.descriptor { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    func answer(to port: Int, _ bytes: [UInt8], isWithoutBody: Bool) throws -> HTTPAnswer {
        let descriptor = try ProxySocket.connect(port: port, patience: 30)
        let isWanted = state.withLock { state in
            state.descriptor = descriptor
            return !state.isCancelled
        }
        defer {
            state.withLock { $0.descriptor = nil }
            close(descriptor)
        }
        guard isWanted else { throw CancellationError() }
        // A server that refuses a body may answer before it was sent, and close the connection.
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { rest in
                Glibc.send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { break }
            sent += count
        }
        var reader = ResponseReader(descriptor)
        do {
            return try reader.answer(isWithoutBody: isWithoutBody)
        } catch {
            if state.withLock({ $0.isCancelled }) { throw CancellationError() }
            throw error
        }
    }
}

/// Reads a response of HTTP/1.1.
private struct ResponseReader {
    private let descriptor: Int32
    private var arrived = Data()

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    mutating func answer(isWithoutBody: Bool) throws -> HTTPAnswer {
        while true {
            let lines = String(decoding: try read(to: "\r\n\r\n"), as: UTF8.self).components(separatedBy: "\r\n")
            let words = lines[0].split(separator: " ")
            guard words.count > 1, let status = Int(words[1]) else { throw POSIXError(.EBADMSG) }
            // Interim responses.
            if (100..<200).contains(status) { continue }
            var headers: [String: String] = [:]
            for line in lines.dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
                guard let name = parts.first?.lowercased(), parts.count == 2 else { continue }
                headers[name] = headers[name].map { "\($0), \(parts[1])" } ?? parts[1]
            }
            var body = Data()
            if !isWithoutBody, status != 204, status != 304 { body = try content(headers) }
            return HTTPAnswer(status: status, headers: headers, body: String(decoding: body, as: UTF8.self))
        }
    }

    private mutating func content(_ headers: [String: String]) throws -> Data {
        if let length = headers["content-length"].flatMap({ Int($0) }) { return try read(length) }
        guard headers["transfer-encoding"]?.lowercased() == "chunked" else {
            while try receive() {}
            return arrived
        }
        var body = Data()
        while true {
            let line = String(decoding: try read(to: "\r\n"), as: UTF8.self)
            guard let length = Int(line.prefix { $0 != ";" }, radix: 16) else { throw POSIXError(.EBADMSG) }
            if length == 0 { return body }
            body += try read(length)
            _ = try read(to: "\r\n")
        }
    }

    /// What arrives before the mark, which is skipped.
    private mutating func read(to mark: String) throws -> Data {
        while true {
            if let found = arrived.range(of: Data(mark.utf8)) {
                let part = Data(arrived[arrived.startIndex..<found.lowerBound])
                arrived = Data(arrived[found.upperBound...])
                return part
            }
            guard try receive() else { throw POSIXError(.ECONNRESET) }
        }
    }

    private mutating func read(_ count: Int) throws -> Data {
        while arrived.count < count {
            guard try receive() else { throw POSIXError(.ECONNRESET) }
        }
        let part = Data(arrived.prefix(count))
        arrived = Data(arrived.dropFirst(count))
        return part
    }

    /// Waits for bytes. Returns false at the end.
    private mutating func receive() throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var count = recv(descriptor, &buffer, buffer.count, 0)
        while count < 0, errno == EINTR { count = recv(descriptor, &buffer, buffer.count, 0) }
        guard count >= 0 else { throw errno == EAGAIN ? POSIXError(.ETIMEDOUT) : POSIXError(.ECONNRESET) }
        arrived.append(contentsOf: buffer[..<count])
        return count > 0
    }
}
