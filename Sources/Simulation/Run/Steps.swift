/// Everything that a run sends, in order: the store's notifications, and a backend's link statements between them.
package struct Steps: RandomAccessCollection, Sendable {
    package enum Step: Sendable {
        case notification(SimulatedDelivery)
        case statement(SimulatedStatement)
    }

    let simulation: Simulation

    package var startIndex: Int { 0 }
    package var endIndex: Int { simulation.plan.entries.count + simulation.statementPlan.entries.count }

    package subscript(position: Int) -> Step {
        let (before, entry) = simulation.statementPlan.lookUp(position)
        guard let entry else { return .notification(simulation.deliveries[position - before]) }
        return .statement(SimulatedStatement(simulation: simulation, entry: entry))
    }
}

/// A link statement to send.
package struct SimulatedStatement: Sendable {
    let simulation: Simulation
    let entry: StatementPlan.Entry

    private var rendered: RenderedStory { simulation.storyteller.story(at: Int(entry.index)) }

    package var statement: SimulatedLinks { rendered.statements[Int(entry.number)] }
    package var story: Story { rendered.story }
    /// The position of the step that must be answered before this one is sent.
    package var predecessor: Int? { entry.predecessor }

    /// The request body. In a run in step, the backend knows only what receipts contain, like notifications of version 1.
    package func body() -> [UInt8] {
        statement.body(simulation.settings.isInStep ? .v1 : simulation.settings.format)
    }
}

extension Simulation {
    /// Notifications and link statements in the order of sending.
    package var steps: Steps { Steps(simulation: self) }

    /// Link statements in the order of sending.
    package var statements: some Sequence<SimulatedStatement> {
        statementPlan.entries.lazy.map { SimulatedStatement(simulation: self, entry: $0) }
    }
}
