import Foundation
import Synchronization

/// Stands between a client and PostgreSQL, and does to their connections what networks do.
///
/// Listens on a port of this machine and passes everything on to a unix socket. One fault is in force at a time.
/// Encryption is declined, since the messages inside must be read.
package final class FaultyProxy: Sendable {
    package enum Fault: Sendable, Hashable {
        /// Nobody listens; what is connected stays.
        case refuse
        /// What is connected is reset, and so is who connects.
        case reset
        /// Each piece is passed on so much later.
        case delay(milliseconds: Int)
        /// Nothing passes, and nobody is told. It passes when the fault ends, however late that is.
        case blackHole
        /// One byte at a time.
        case trickle
        /// The connection that has sent so many bytes from now on is reset in the middle of whatever it sends.
        case cutAfter(bytes: Int)
        /// The connection that gets there first is reset.
        ///
        /// - Parameter application: Only a connection that named itself so when it began; nil for any.
        case cut(Moment, application: String? = nil)
    }

    /// A place in the conversation of client and server.
    package enum Moment: String, Sendable, Hashable, CaseIterable {
        case beforeParse, afterParse, beforeBind, afterBind, beforeExecute, afterExecute, beforeSync, afterSync
        /// All that is to be committed was passed on, and the commit is not.
        case beforeCommitSent
        /// The commit was passed on, and whether it happens is open.
        case afterCommitSent
        /// The server has committed, and says so to nobody.
        case beforeCommitAnswer
    }

    package let port: Int
    private let target: String
    private let state: Mutex<State>

    private struct State {
        var fault: Fault?
        var links: [ProxyLink] = []
        var isStopped = false
        var cuts = 0
    }

    /// - Parameter target: The path of PostgreSQL's socket.
    /// - Throws: If no port can be had.
    package init(target: String) throws {
        self.target = target
        state = Mutex(State())
        let listener = try ProxySocket.listen(port: 0)
        port = ProxySocket.port(of: listener)
        Thread.detachNewThread { [self] in accept(listener) }
    }

    /// Replaces the fault in force.
    package func inject(_ fault: Fault) {
        let reset = state.withLock { state in
            state.fault = fault
            state.links.removeAll { $0.isOver }
            return fault == .reset ? state.links : []
        }
        for link in reset { link.cut() }
    }

    package func heal() {
        state.withLock { $0.fault = nil }
    }

    /// How many connections were cut by ``Fault/cutAfter(bytes:)`` and ``Fault/cut(_:)``.
    package var cuts: Int { state.withLock { $0.cuts } }

    /// Resets all connections and takes no more.
    package func stop() {
        let links = state.withLock { state in
            state.isStopped = true
            return state.links
        }
        for link in links { link.cut() }
    }

    var fault: Fault? { state.withLock { $0.fault } }

    /// True for the one link that has come to a moment that is waited for.
    func takes(_ moment: Moment, application: String) -> Bool {
        takes(.cut(moment)) || takes(.cut(moment, application: application))
    }

    /// True for the one link that has come to what the fault is about; the fault is over with that.
    func takes(_ fault: Fault) -> Bool {
        state.withLock { state in
            guard state.fault == fault else { return false }
            state.fault = nil
            state.cuts += 1
            return true
        }
    }

    private func accept(_ first: Int32) {
        var listener: Int32? = first
        while !state.withLock({ $0.isStopped }) {
            if fault == .refuse {
                if let open = listener { close(open) }
                listener = nil
                usleep(10_000)
                continue
            }
            guard let open = listener else {
                listener = try? ProxySocket.listen(port: port)
                if listener == nil { usleep(10_000) }
                continue
            }
            guard ProxySocket.isReadable(open, milliseconds: 20) else { continue }
            if let client = ProxySocket.accept(open) { welcome(client) }
        }
        if let open = listener { close(open) }
    }

    private func welcome(_ client: Int32) {
        guard fault != .reset, let server = ProxySocket.connect(path: target) else {
            ProxySocket.reset(client)
            return
        }
        let link = ProxyLink(proxy: self, client: client, server: server)
        state.withLock { state in
            state.links.removeAll { $0.isOver }
            state.links.append(link)
        }
        link.start()
    }
}
