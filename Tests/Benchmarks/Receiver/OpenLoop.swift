import Foundation

/// Sends requests on a schedule over a limited number of connections.
///
/// Unlike wrk, it does not wait for an answer before the next request, so late answers show in the latencies.
struct OpenLoop {
    let requests: RequestFile
    let connections: Int

    /// The result of one request.
    struct Answer {
        /// The number of the request in the file.
        let request: Int
        /// 0 if the connection broke or the answer timed out.
        let status: Int
        /// Since the scheduled time.
        let milliseconds: Double
        /// Since the request was sent, which is later than scheduled if all connections were busy.
        let millisecondsSinceSent: Double
        let position: Int64?
    }

    /// The longest wait for the last answers, in seconds.
    private static let patience = 15.0

    /// - Parameter from: The number of the first request. After the last request, the first one follows.
    func run(port: Int, rate: Double, seconds: Double, from first: Int = 0) throws -> [Answer] {
        let file = try Data(contentsOf: URL(fileURLWithPath: requests.path), options: .alwaysMapped)
        var links = (0..<connections).map { _ in Link(port: port) }
        defer { for index in links.indices { links[index].close() } }
        return try file.withUnsafeBytes { bytes in
            var answers: [Answer] = []
            var free = Array(links.indices)
            var sent = 0
            let start = Self.now()
            let end = start + seconds
            while true {
                let now = Self.now()
                while let index = free.last, now < end, start + Double(sent) / rate <= now {
                    free.removeLast()
                    let number = (first + sent) % requests.ranges.count
                    try links[index].begin(
                        number, requests.ranges[number], due: start + Double(sent) / rate, now: now)
                    links[index].write(bytes)
                    sent += 1
                }
                if free.count == links.count, now >= end { return answers }
                guard now < end + Self.patience else {
                    return answers + links.filter(\.isBusy).map { $0.answer(now: now, nil) }
                }
                let wait = free.isEmpty || now >= end ? 0.05 : max(0, start + Double(sent) / rate - now)
                for index in ready(links, seconds: min(wait, 0.05)) {
                    links[index].write(bytes)
                    guard let arrived = links[index].read() else { continue }
                    // As clients do whose idle connection the server has just closed.
                    if arrived.text == nil, try links[index].beginAgain() { continue }
                    answers.append(links[index].answer(now: Self.now(), arrived.text))
                    if arrived.isLast { links[index].close() }
                    links[index].isBusy = false
                    free.append(index)
                }
            }
        }
    }

    private static func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// The busy links that are ready to read or write.
    private func ready(_ links: [Link], seconds: Double) -> [Int] {
        let busy = links.indices.filter { links[$0].isBusy }
        var polls = busy.map { index in
            pollfd(
                fd: links[index].descriptor, events: Int16(POLLIN) | (links[index].isWritten ? 0 : Int16(POLLOUT)),
                revents: 0)
        }
        // Milliseconds are too coarse for a rate of thousands.
        let isSoon = seconds < 0.001
        if isSoon { usleep(UInt32(min(seconds * 1e6, 200))) }
        guard poll(&polls, nfds_t(polls.count), isSoon ? 0 : Int32(seconds * 1e3)) > 0 else { return [] }
        return zip(busy, polls).filter { $1.revents != 0 }.map(\.0)
    }

    /// A connection, opened when there is something to send, and the request on it.
    private struct Link {
        private let port: Int
        private(set) var descriptor: Int32 = -1
        var isBusy = false
        private var isReused = false
        private var request = 0
        private var whole = 0..<0
        private var range = 0..<0
        private var due = 0.0
        private var sentAt = 0.0
        private var received: [UInt8] = []

        init(port: Int) {
            self.port = port
        }

        var isWritten: Bool { range.isEmpty }

        mutating func begin(_ request: Int, _ range: Range<Int>, due: Double, now: Double) throws {
            (self.request, whole, self.range, self.due, sentAt) = (request, range, range, due, now)
            received.removeAll(keepingCapacity: true)
            isBusy = true
            isReused = descriptor >= 0
            if !isReused { try open() }
        }

        /// Sends the request on a new connection, if the old one was kept from an earlier request and ended without a
        /// byte of an answer.
        mutating func beginAgain() throws -> Bool {
            guard isReused, received.isEmpty else { return false }
            close()
            isReused = false
            range = whole
            try open()
            return true
        }

        private mutating func open() throws {
            descriptor = try LoopbackSocket.connect(port: port)
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        }

        mutating func close() {
            if descriptor >= 0 { Glibc.close(descriptor) }
            descriptor = -1
        }

        mutating func write(_ bytes: UnsafeRawBufferPointer) {
            guard !range.isEmpty else { return }
            let written = send(
                descriptor, bytes.baseAddress! + range.lowerBound, range.count, Int32(MSG_NOSIGNAL))
            if written > 0 { range = (range.lowerBound + written)..<range.upperBound }
        }

        /// The answer once it is complete, or the end of the connection; nil before.
        mutating func read() -> (text: HTTPResponseText?, isLast: Bool)? {
            var part = [UInt8](repeating: 0, count: 2048)
            let count = recv(descriptor, &part, part.count, 0)
            if count < 0, errno == EAGAIN { return nil }
            guard count > 0 else { return (nil, true) }
            received += part[..<count]
            return HTTPResponseText(received).map { ($0, $0.isLast) }
        }

        /// - Parameter text: Nil if the connection broke or the answer timed out.
        func answer(now: Double, _ text: HTTPResponseText?) -> Answer {
            Answer(
                request: request, status: text?.status ?? 0, milliseconds: (now - due) * 1e3,
                millisecondsSinceSent: (now - sentAt) * 1e3, position: text?.position)
        }
    }
}
