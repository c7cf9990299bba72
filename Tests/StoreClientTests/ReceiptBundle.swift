import AppStore
import HTTPServer
import Synchronization
import TestSupport

@testable import StoreClient

/// A client with a fake store and a manual clock.
struct ReceiptBundle {
    static let secret = "0123456789abcdef0123456789abcdef"
    static let nextSecret = "fedcba9876543210fedcba9876543210"

    let store: FakeStore
    let clock: ManualClock
    let log = LogRecorder()
    let metrics = MetricsRegistry()
    let client: ReceiptClient

    /// - Parameter random: Zero by default, so that retries follow at once.
    init(
        _ store: FakeStore, clock: ManualClock = ManualClock(jumps: true),
        random: @escaping @Sendable () -> Double = { 0 }
    ) {
        self.store = store
        self.clock = clock
        client = ReceiptClient(
            transport: store, clock: clock.clock, random: random, metrics: metrics, logger: log.logger)
    }

    static func app(
        secrets: [String] = [Self.secret], budget: CallBudget = .standard, bundleId: String = "com.example.app"
    ) -> App {
        App(bundleId: bundleId, sharedSecrets: secrets, callBudget: budget)
    }

    /// An app receipt that differs for each number.
    static func receipt(_ number: UInt8 = 1) -> Receipt {
        Receipt(stored: [0x30, 0x80, number] + [UInt8](repeating: number, count: 30))
    }

    func ask(
        _ number: UInt8 = 1, app: App = Self.app(), priority: AskPriority = .handIn
    ) async -> ReceiptOutcome {
        await client.ask(Self.receipt(number), app: app, priority: priority)
    }
}

extension StoreOutcome where Answer == AnswerFromApple, Refusal == ReceiptStatus {
    /// One line for comparisons.
    var text: String {
        switch self {
        case .answered(let answer) where answer.action == .accountDeleted: "account deleted, \(answer.host.rawValue)"
        case .answered(let answer): "answered by \(answer.host.rawValue)"
        case .refused(let status): "refused \(status.number)"
        case .rejected: "secret rejected"
        case .unreadable: "unreadable"
        case .unavailable(let reason, let retryAfter): "unavailable \(reason), \(retryAfter)"
        }
    }
}
