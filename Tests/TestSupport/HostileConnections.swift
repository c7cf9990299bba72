import Foundation
import Synchronization

/// Connections that try to exhaust a listener on this machine. Each is reopened whenever the server closes it.
package final class HostileConnections: Sendable {
    package enum Mode: String, CaseIterable, Sendable {
        /// Connects and sends nothing.
        case idle
        /// Sends a header byte by byte.
        case dripHead = "drip-head"
        /// Sends a body byte by byte.
        case dripBody = "drip-body"
        /// Announces a body above the accepted size and sends it byte by byte.
        case tooLarge = "too-large"
        /// Sends complete requests at intervals.
        case keepAlive = "keep-alive"
    }

    package struct Settings: Sendable {
        package var mode = Mode.idle
        package var connections = 800
        /// The number of local addresses in 127.0.0.0/8, used in turn.
        package var addresses = 1
        /// Seconds between the bytes or requests of one connection.
        package var every = 1.0
        /// The largest number of connections opened per second, so that the machine is not the limit.
        package var opensPerSecond = 2000.0

        package init(mode: Mode) { self.mode = mode }
    }

    private let port: Int
    private let settings: Settings
    private let isEnding = Mutex(false)
    private let opened = Mutex(0)

    /// The number of connections opened so far.
    package var openedCount: Int { opened.withLock { $0 } }

    private init(port: Int, settings: Settings) {
        self.port = port
        self.settings = settings
    }

    /// Holds the connections while the body runs.
    package static func hold<Value>(
        _ settings: Settings, port: Int, _ body: (HostileConnections) async throws -> Value
    ) async throws -> Value {
        let connections = HostileConnections(port: port, settings: settings)
        let ended = AsyncStream<Void>.makeStream()
        let thread = Thread {
            connections.run()
            ended.continuation.finish()
        }
        thread.start()
        let outcome: Result<Value, any Error>
        do { outcome = .success(try await body(connections)) } catch { outcome = .failure(error) }
        connections.isEnding.withLock { $0 = true }
        for await _ in ended.stream {}
        return try outcome.get()
    }

    /// The body of the thread: opens and drives the connections until the end.
    private func run() {
        var links = (0..<settings.connections).map { _ in Link() }
        var tokens = 0.0
        var last = Link.now()
        while !isEnding.withLock({ $0 }) {
            let now = Link.now()
            tokens = min(settings.opensPerSecond / 10, tokens + (now - last) * settings.opensPerSecond)
            last = now
            for index in links.indices {
                if links[index].isClosed, tokens >= 1 {
                    tokens -= 1
                    links[index].open(port: port, address: Self.address(index % settings.addresses))
                    opened.withLock { $0 += 1 }
                }
                links[index].act(settings, now)
            }
            usleep(20_000)
        }
        for index in links.indices { links[index].end() }
    }

    /// The local address with this number: 127.0.0.1 for 0, then addresses from 127.0.1.2 on.
    private static func address(_ number: Int) -> UInt32 {
        number == 0 ? 0x7f00_0001 : 0x7f00_0101 + UInt32(number / 250) << 8 + UInt32(number % 250)
    }
}

/// One hostile connection.
private struct Link {
    private var descriptor: Int32 = -1
    private var hasBegun = false
    private var nextAt = 0.0

    var isClosed: Bool { descriptor < 0 }

    static func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    mutating func open(port: Int, address: UInt32) {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard socket >= 0 else { return }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        var own = Self.address(address, 0)
        var peer = Self.address(0x7f00_0001, port)
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &own) { pointer in
            _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, length) }
        }
        withUnsafeMutablePointer(to: &peer) { pointer in
            _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(socket, $0, length) }
        }
        descriptor = socket
        hasBegun = false
        nextAt = 0
    }

    private static func address(_ host: UInt32, _ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = host.bigEndian
        return address
    }

    mutating func end() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }

    mutating func act(_ settings: HostileConnections.Settings, _ now: Double) {
        guard !isClosed else { return }
        if isEnded() { return end() }
        guard now >= nextAt else { return }
        nextAt = now + settings.every
        let post = "POST /apple/notifications HTTP/1.1\r\nHost: x\r\n"
        let get = "GET /apple/notifications HTTP/1.1\r\nHost: x\r\n\r\n"
        let text =
            switch settings.mode {
            case .idle: ""
            case .dripHead: hasBegun ? "x" : post + "X: "
            case .dripBody: hasBegun ? "x" : post + "Content-Length: 1000\r\n\r\n"
            case .tooLarge: hasBegun ? "x" : post + "Content-Length: 6000000\r\n\r\n"
            case .keepAlive: get
            }
        guard !text.isEmpty else { return }
        let bytes = Array(text.utf8)
        let count = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        if count > 0 {
            hasBegun = true
        } else if count < 0, errno != EAGAIN, errno != ENOTCONN, errno != EINPROGRESS {
            end()
        }
    }

    /// Discards received bytes. True if the connection has ended.
    private func isEnded() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count > 0 { continue }
            return count == 0 || (errno != EAGAIN && errno != ENOTCONN)
        }
    }
}
