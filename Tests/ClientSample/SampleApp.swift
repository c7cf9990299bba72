import Foundation
import SubledgerClient

/// The app: one object of the client at a time, and what outlives it.
final class SampleApp {
    private let configuration: Configuration
    private let activity = Activity()
    private let device: GivenDevice
    private let store: GivenStore
    private let network: Network
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    private var subledger: Subledger

    /// - Parameter command: `setup`; nil if members are missing.
    init?(_ command: Command) {
        guard let base = command.base, let token = command.token, let app = command.app, let now = command.now,
            let uptime = command.uptime
        else { return nil }
        configuration = Configuration(
            app: app, keys: (command.keys ?? []).compactMap { ServerKey($0) }, products: command.products ?? [:])
        device = GivenDevice(now: now, uptime: uptime, activity)
        store = GivenStore(device, activity)
        network = Network(URLSessionTransport(base: base, publishableToken: token), activity)
        subledger = Self.makeClient(configuration, store, network, folder, device)
    }

    private static func makeClient(
        _ configuration: Configuration, _ store: GivenStore, _ network: Network, _ folder: URL, _ device: GivenDevice
    ) -> Subledger {
        Subledger(
            configuration, store: store, transport: network, cache: FileCache(folder: folder), clock: device)
    }

    /// Removes what was kept.
    func end() {
        try? FileManager.default.removeItem(at: folder)
    }

    func answer(_ command: Command) async -> Answer {
        var answer: Answer
        do {
            answer = try await perform(command)
        } catch {
            answer = Answer(isOk: false, error: Self.word(error))
        }
        await activity.settle()
        if command.name == "state" {
            let entitlements = await subledger.current()
            answer.active = entitlements.active.map(\.id)
            answer.trust = entitlements.trust.rawValue
            answer.unfinished = store.unfinishedIds
        }
        return answer
    }

    private func perform(_ command: Command) async throws -> Answer {
        switch command.name {
        case "login":
            guard let user = command.user else { return Answer(isOk: false, error: "malformed") }
            try await subledger.start(
                user: user, customerId: command.customerId, assertion: GivenAssertions(command.assertions ?? []))
        case "logout": await subledger.signOut()
        case "purchase": try await purchase(command)
        case "deliver":
            if let transaction = command.transaction {
                store.have(transaction.signed, isFinished: command.finished ?? false)
            }
        case "refresh": _ = try await subledger.refresh()
        case "restore":
            let found = try await subledger.restore()
            return Answer(found: found.productIds, refused: found.refused)
        case "restart": await launch()
        case "reboot":
            device.restart()
            await launch()
        case "pass": device.pass(command.seconds ?? 0)
        case "clock": device.setClock(wrongBy: command.wrongBy ?? 0)
        case "network": network.set(isLost: command.away ?? false)
        case "state": break
        default: return Answer(isOk: false, error: "unknown-command")
        }
        return Answer()
    }

    private func purchase(_ command: Command) async throws {
        switch command.outcome {
        case "pending": store.will(.pending)
        case "cancelled": store.will(.cancelled)
        default: store.will(command.transaction.map { .bought($0.signed) })
        }
        defer { store.will(nil) }
        _ = try await subledger.purchase(command.product ?? "")
    }

    /// Ends the app and launches it again, without a user.
    private func launch() async {
        await subledger.signOut()
        subledger = Self.makeClient(configuration, store, network, folder, device)
    }

    private static func word(_ error: any Error) -> String {
        switch error as? SubledgerError {
        case .userIsNil: "no-user"
        case .alreadyStarted: "already-started"
        case .notStarted: "not-started"
        case .purchasePending: "pending"
        case .purchaseCancelled: "cancelled"
        case .unreachable, .unavailable: "unreachable"
        case .refused: "refused"
        case .answer: "answer"
        case nil: "store"
        }
    }
}
