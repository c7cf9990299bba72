import AppStore
import Encoding
import Server
import StoreClient
import Subscriptions

/// Reads the histories of many accounts, a few at a time, with progress.
struct BackfillRun {
    let backfiller: Backfiller
    let app: App

    struct Account: Sendable {
        /// A `transactionId` or an `originalTransactionId`.
        let id: String
        /// Nil if it is not known.
        let environment: Subscriptions.Environment?
    }

    struct Summary: Sendable {
        var read = 0
        var known = 0
        var notFound = 0
        var refused = 0
        var unavailable = 0
        var events = 0
        var isKeyRejected = false

        var done: Int { read + known + notFound + refused + unavailable }

        /// `{"app":…,"read":…,"known":…,"notFound":…,"refused":…,"unavailable":…,"events":…}`
        func line(_ app: String) -> String {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("app", app)
                writer.member("read", read)
                writer.member("known", known)
                writer.member("notFound", notFound)
                writer.member("refused", refused)
                writer.member("unavailable", unavailable)
                writer.member("events", events)
            }
            return writer.text
        }
    }

    private enum Limits {
        /// Each waits for its answers; the budget limits the calls.
        static let concurrency = 8
        /// How often an account is tried that cannot be asked about.
        static let triesMax = 5
        static let waitMax = Duration.seconds(60)
    }

    /// Prints the ids that failed as JSON lines.
    func run(_ accounts: [Account]) async throws -> Summary {
        let progress = ProgressReport("backfill", unit: "accounts")
        return try await withThrowingTaskGroup(of: (Account, Backfiller.Outcome).self) { group in
            var waiting = accounts[...]
            var summary = Summary()
            for account in waiting.prefix(Limits.concurrency) {
                group.addTask { (account, try await read(account)) }
            }
            waiting = waiting.dropFirst(Limits.concurrency)
            while let (account, outcome) = try await group.next() {
                count(outcome, of: account, &summary)
                progress.update(Int64(summary.done), of: Int64(accounts.count))
                if !summary.isKeyRejected, let next = waiting.popFirst() {
                    group.addTask { (next, try await read(next)) }
                }
            }
            return summary
        }
    }

    private func read(_ account: Account) async throws -> Backfiller.Outcome {
        var outcome = Backfiller.Outcome.notFound
        for _ in 0..<Limits.triesMax {
            outcome = try await backfiller.read(account.id, of: app, in: account.environment)
            guard case .unavailable(let wait) = outcome else { break }
            try await Task.sleep(for: min(wait, Limits.waitMax))
        }
        return outcome
    }

    private func count(_ outcome: Backfiller.Outcome, of account: Account, _ summary: inout Summary) {
        switch outcome {
        case .read(let events):
            summary.read += 1
            summary.events += events
        case .known: summary.known += 1
        case .keyRejected: summary.isKeyRejected = true
        case .notFound:
            summary.notFound += 1
            tell(account, "not_found")
        case .refused:
            summary.refused += 1
            tell(account, "refused")
        case .unavailable:
            summary.unavailable += 1
            tell(account, "unavailable")
        }
    }

    private func tell(_ account: Account, _ result: String) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("id", account.id)
            writer.member("result", result)
        }
        print(writer.text)
    }
}
