import Foundation
import Synchronization

/// A proxy between a client and PostgreSQL that injects network faults.
///
/// Listens on a port of this machine and forwards to a unix socket. One fault is active at a time. Encryption is declined,
/// because the proxy reads the messages.
package final class FaultyProxy: Sendable {
    package enum Fault: Sendable, Hashable {
        /// New connections are refused; existing ones stay.
        case refuse
        /// Existing and new connections are reset.
        case reset
        /// Each piece is forwarded after a delay.
        case delay(milliseconds: Int)
        /// Nothing is forwarded and no connection is closed. The bytes are forwarded when the fault ends.
        case blackHole
        /// Bytes are forwarded one at a time.
        case trickle
        /// The first connection that sends this many bytes from now on is reset, even in the middle of a message.
        case cutAfter(bytes: Int)
        /// The first connection that reaches the moment is reset.
        ///
        /// - Parameter application: Only connections with this `application_name`; nil for any.
        case cut(Moment, application: String? = nil)
    }

    /// A moment in the exchange of messages between client and server.
    package enum Moment: String, Sendable, Hashable, CaseIterable {
        case beforeParse, afterParse, beforeBind, afterBind, beforeExecute, afterExecute, beforeSync, afterSync
        /// The transaction's statements were forwarded, the commit was not.
        case beforeCommitSent
        /// The commit was forwarded; its outcome is unknown.
        case afterCommitSent
        /// The server has committed; its answer was not forwarded.
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
    /// - Throws: If no port is available.
    package init(target: String) throws {
        self.target = target
        state = Mutex(State())
        let listener = try ProxySocket.listen(port: 0)
        port = ProxySocket.port(of: listener)
        Thread.detachNewThread { [self] in accept(listener) }
    }

    /// Replaces the active fault.
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

    /// The number of connections cut by ``Fault/cutAfter(bytes:)`` and ``Fault/cut(_:application:)``.
    package var cuts: Int { state.withLock { $0.cuts } }

    /// Resets all connections and accepts no new ones.
    package func stop() {
        let links = state.withLock { state in
            state.isStopped = true
            return state.links
        }
        for link in links { link.cut() }
    }

    var fault: Fault? { state.withLock { $0.fault } }

    /// True for the first link that reaches the moment of the active fault.
    func claims(_ moment: Moment, application: String) -> Bool {
        claims(.cut(moment)) || claims(.cut(moment, application: application))
    }

    /// True for the first link that claims the active fault, which ends it.
    func claims(_ fault: Fault) -> Bool {
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
