import Subscriptions

/// A run of the make-believe store: what it delivers and in which order, and the right answers.
///
/// A run is made from its settings alone and is the same each time, but for the bytes of signatures. It holds sixteen
/// bytes for each delivery, and some 200 for each that is repeated; stories are told anew and bodies signed when they
/// are asked for.
package struct Simulation: Sendable {
    package enum Format: String, Sendable, CaseIterable {
        case v1, v2
        /// Each notification in version 2, and also in version 1 if that has it and the story can be told in it.
        case both
    }

    package enum Order: String, Sendable, CaseIterable {
        /// By the time of signing, over all lines.
        case inOrder = "in-order"
        case shuffled, reversed
    }

    package struct Settings: Sendable {
        package var seed: UInt64 = 1
        /// How many stories are told. Some have several lines.
        package var subscriptions = 20
        /// Told in turn.
        package var stories = Story.allCases
        package var format = Format.v2
        package var order = Order.inOrder
        /// The part of deliveries that is repeated anywhere later, 0 to 1.
        package var duplicate = 0.0
        /// The part of notifications that is never delivered, 0 to 1.
        package var lose = 0.0
        package var app: SimulatedApp

        package init(app: SimulatedApp) {
            self.app = app
        }
    }

    package let settings: Settings
    package let storyteller: Storyteller
    let signer: JWSSigner
    let plan: DeliveryPlan
    let statementPlan: StatementPlan
    let tapes = SignatureTapes()

    /// Nil if no story of the settings can be told in their format.
    package init?(_ settings: Settings, certificates: TestCertificates = .standard) {
        let stories = settings.stories.filter { settings.format != .v1 || $0.isTellableInVersion1 }
        guard !stories.isEmpty else { return nil }
        self.settings = settings
        storyteller = Storyteller(seed: settings.seed, stories: stories, app: settings.app.bundleId)
        signer = JWSSigner(certificates)
        plan = DeliveryPlan(settings, storyteller)
        statementPlan = StatementPlan(settings, storyteller, plan.entries)
    }

    /// The notifications, in the order in which they are to be sent.
    package var deliveries: Deliveries { Deliveries(simulation: self) }
}
