import Foundation
import Synchronization

/// A connection through a ``FaultyProxy``, with one thread per direction.
final class ProxyLink: Sendable {
    private let proxy: FaultyProxy
    private let client: Int32
    private let server: Int32
    private let isCut = Atomic(false)
    private let directionsLeft = Atomic(2)
    private let application = Mutex("")

    init(proxy: FaultyProxy, client: Int32, server: Int32) {
        self.proxy = proxy
        self.client = client
        self.server = server
    }

    func start() {
        Thread.detachNewThread { [self] in end(after: passRequests) }
        Thread.detachNewThread { [self] in end(after: passAnswers) }
    }

    /// Resets both ends as soon as both threads have stopped.
    func cut() {
        isCut.store(true, ordering: .relaxed)
    }

    var isOver: Bool { directionsLeft.load(ordering: .relaxed) == 0 }

    /// The thread that ends last closes the descriptors, so that none is used after it is closed.
    private func end(after pass: () -> Void) {
        pass()
        cut()
        guard directionsLeft.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
        ProxySocket.reset(client)
        ProxySocket.reset(server)
    }

    private func passRequests() {
        var messages = ProtocolMessages(ofClient: true)
        var commits = CommitWatch()
        var counted: (fault: FaultyProxy.Fault?, bytes: Int) = (nil, 0)
        while let piece = read(client) {
            if case .cutAfter(let bytes) = proxy.fault {
                if counted.fault != proxy.fault { counted = (proxy.fault, 0) }
                counted.bytes += piece.count
                if counted.bytes >= bytes, proxy.claims(.cutAfter(bytes: bytes)) {
                    _ = send(messages.unfinished + piece.dropLast(min(piece.count, counted.bytes - bytes)), to: server)
                    return
                }
            }
            messages.append(piece)
            while let message = messages.next() {
                if message.asksForEncryption {
                    guard send([UInt8(ascii: "N")], to: client) else { return }
                    continue
                }
                if let name = message.applicationName { application.withLock { $0 = name } }
                let step = commits.step(of: message)
                if step == .isNext, claims(.beforeCommitSent) { return }
                guard pass(message) else { return }
                if step == .isSent, claims(.afterCommitSent) { return }
            }
        }
    }

    private func claims(_ moment: FaultyProxy.Moment) -> Bool {
        proxy.claims(moment, application: application.withLock { $0 })
    }

    private func pass(_ message: ProtocolMessages.Message) -> Bool {
        let moments = Self.moments[message.kind]
        if let before = moments?.before, claims(before) { return false }
        guard send(message.bytes, to: server) else { return false }
        if let after = moments?.after, claims(after) { return false }
        return true
    }

    private static let moments: [UInt8: (before: FaultyProxy.Moment, after: FaultyProxy.Moment)] = [
        ProtocolMessages.Kind.parse: (.beforeParse, .afterParse),
        ProtocolMessages.Kind.bind: (.beforeBind, .afterBind),
        ProtocolMessages.Kind.execute: (.beforeExecute, .afterExecute),
        ProtocolMessages.Kind.sync: (.beforeSync, .afterSync),
    ]

    private func passAnswers() {
        var messages = ProtocolMessages(ofClient: false)
        while let piece = read(server) {
            messages.append(piece)
            while let message = messages.next() {
                if message.kind == ProtocolMessages.Kind.commandComplete, message.texts(1) == ["COMMIT"],
                    claims(.beforeCommitAnswer)
                {
                    return
                }
                guard send(message.bytes, to: client) else { return }
            }
        }
    }

    /// Waits for bytes; nil at the end of the connection.
    private func read(_ descriptor: Int32) -> [UInt8]? {
        while !isCut.load(ordering: .relaxed) {
            guard proxy.fault != .blackHole else {
                usleep(10_000)
                continue
            }
            guard ProxySocket.isReadable(descriptor, milliseconds: 20) else { continue }
            let piece = [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
                count = max(0, recv(descriptor, buffer.baseAddress, buffer.count, 0))
            }
            return piece.isEmpty ? nil : piece
        }
        return nil
    }

    /// Forwards bytes as the active fault allows.
    ///
    /// - Returns: False if the connection has ended.
    private func send(_ bytes: some Collection<UInt8>, to descriptor: Int32) -> Bool {
        let bytes = Array(bytes)
        var sent = 0
        while sent < bytes.count {
            if isCut.load(ordering: .relaxed) { return false }
            var portion = bytes.count - sent
            switch proxy.fault {
            case .blackHole:
                usleep(10_000)
                continue
            case .delay(let milliseconds) where sent == 0: usleep(UInt32(milliseconds) * 1000)
            case .trickle:
                portion = 1
                usleep(1000)
            default: break
            }
            guard ProxySocket.isWritable(descriptor, milliseconds: 20) else { continue }
            let count = bytes.withUnsafeBytes { buffer in
                Glibc.send(descriptor, buffer.baseAddress.map { $0 + sent }, portion, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno != EAGAIN, errno != EINTR { return false }
            sent += max(0, count)
        }
        return true
    }
}
