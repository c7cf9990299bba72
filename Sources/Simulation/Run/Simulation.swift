import Encoding
import Subscriptions

/// A run of the simulated store: its deliveries in order, and the expected answers.
///
/// A run depends on its settings only and is the same each time, except for the bytes of signatures. It holds 16 bytes
/// for each delivery and about 200 for each repeated one. Stories are rendered and bodies signed on access.
package struct Simulation: Sendable {
    package enum Format: String, Sendable, CaseIterable {
        case v1, v2
        /// Each notification in version 2, and in version 1 too if version 1 sends it and covers the story.
        case both
    }

    package enum Order: String, Sendable, CaseIterable {
        /// Ordered by signing time, across all subscriptions.
        case inOrder = "in-order"
        case shuffled, reversed
    }

    package struct Settings: Sendable {
        package var seed: UInt64 = 1
        /// The number of stories. Some have more than one subscription.
        package var subscriptions = 20
        /// Used in turn.
        package var stories = Story.allCases
        package var format = Format.v2
        package var order = Order.inOrder
        /// The fraction of deliveries that is repeated at a random later position, 0 to 1.
        package var duplicate = 0.0
        /// The fraction of notifications that is never delivered, 0 to 1.
        package var lose = 0.0
        /// Whether the server hears of receipts and asks the store as the simulated time passes, and so learns most of what
        /// lost notifications would have said. It changes what answers are expected.
        package var isInStep = false
        /// The server's policy for the app, under which the answers are expected. It changes nothing that is sent.
        package var ownership = OwnershipPolicy.standard
        package var window = StoryWindow.standard
        package var app: SimulatedApp

        package init(app: SimulatedApp) {
            self.app = app
        }
    }

    package let settings: Settings
    package let storyteller: Storyteller
    /// Signs as the store of the run.
    package let signer: JWSSigner
    let plan: DeliveryPlan
    let statementPlan: StatementPlan
    let tapes = SignatureTapes()
    /// Makes the receipts of the run's Apple Accounts.
    package let seal: ReceiptSeal

    /// Nil if the format of the settings covers none of their stories.
    package init?(_ settings: Settings, certificates: TestCertificates = .standard) {
        let stories = settings.stories.filter { settings.format != .v1 || $0.isCompleteInVersion1 }
        guard !stories.isEmpty else { return nil }
        self.settings = settings
        storyteller = Storyteller(
            seed: settings.seed, stories: stories, app: settings.app.bundleId, ownership: settings.ownership,
            window: settings.window)
        signer = JWSSigner(certificates)
        seal = ReceiptSeal(seed: settings.seed)
        plan = DeliveryPlan(settings, storyteller)
        statementPlan = StatementPlan(settings, storyteller, plan.entries)
    }

    /// No event of any story in the standard window is later.
    package static var end: Instant { StoryWindow.standard.end }

    /// Before the first event of every story in the standard window.
    package static var start: Instant { StoryWindow.standard.start }

    /// The notifications in the order of sending.
    package var deliveries: Deliveries { Deliveries(simulation: self) }
}
