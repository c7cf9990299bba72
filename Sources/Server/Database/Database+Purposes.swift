import Logging
import Postgres
import Projector
import Synchronization

extension Database {
    /// What the services of a server use connections for. All services with the same purpose share a pool, so that a process
    /// with all roles has at most ``connectionsMax`` connections. What must not wait for each other has pools of its own.
    package enum Purpose: Sendable, CaseIterable {
        /// One connection for batches, one for creating streams, one for notifying the projector.
        case appending
        /// Few verdicts are written, so health checks use the connection as well.
        case verifying
        /// Notifications of apps that are not configured must not delay any other.
        case quarantine
        /// What backends hand in. Receipts of many megabytes must not delay notifications.
        case handIns
        /// Links of customers, each of which waits for its turn.
        case links
        /// Requests of the private listener.
        case requests
        /// Hand-ins that wait for the projection, and deliveries to endpoints. They must not delay requests.
        case background
        /// What asks the stores and delivers to endpoints. No statement waits for a store.
        case asking
        case products
        case authenticator
        /// Each statement ends after a few seconds.
        case figures
        case projecting

        var role: Role {
            switch self {
            case .appending, .verifying, .quarantine, .handIns, .links: .receiver
            case .requests, .background, .figures: .reader
            case .asking: .poller
            case .products: .products
            case .authenticator: .authenticator
            case .projecting: .projector
            }
        }

        var limit: Int {
            switch self {
            case .verifying, .quarantine, .products, .authenticator, .figures: 1
            case .handIns, .links, .background: 2
            case .appending, .asking: 3
            case .requests: 6
            case .projecting: Projector.connectionsMax
            }
        }
    }

    /// Sessions of a process with all roles outside of the pools: one that leads, and three that listen.
    static let sessionsMax = 4
    /// The watch over readers of a private PostgreSQL has one more.
    static let connectionsMax = Purpose.allCases.reduce(sessionsMax) { $0 + $1.limit }

    /// The pool for a purpose, which the services of this process share.
    package func pool(for purpose: Purpose, logger: Logger) -> PostgresPool {
        pools.pool(for: purpose) {
            var configuration = purpose == .figures ? figures : configuration(purpose.role)
            if purpose == .projecting { configuration.sessionSettings.merge(Projector.sessionSettings) { $1 } }
            return PostgresPool(configuration, limit: purpose.limit, logger: logger)
        }
    }
}

/// The pools of a process, made when first needed.
final class SharedPools: Sendable {
    private let pools = Mutex<[Database.Purpose: PostgresPool]>([:])

    var all: [PostgresPool] { pools.withLock { Array($0.values) } }

    func pool(for purpose: Database.Purpose, make: () -> PostgresPool) -> PostgresPool {
        pools.withLock { pools in
            if let known = pools[purpose] { return known }
            let pool = make()
            pools[purpose] = pool
            return pool
        }
    }
}
