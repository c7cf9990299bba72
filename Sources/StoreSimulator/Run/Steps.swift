/// All that is sent in a run, in its order: the store's notifications, and what a backend states between them.
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

/// A statement of a backend on its way.
package struct SimulatedStatement: Sendable {
    let simulation: Simulation
    let entry: StatementPlan.Entry

    private var told: ToldStory { simulation.storyteller.story(at: Int(entry.index)) }

    package var statement: StatedLinks { told.statements[Int(entry.number)] }
    package var story: Story { told.story }
    /// Among the steps: what must have been taken before this is sent.
    package var predecessor: Int? { entry.predecessor }

    /// The bytes to put.
    package func body() -> [UInt8] { statement.body(simulation.settings.format) }
}

extension Simulation {
    /// In the order in which they are to be sent.
    package var steps: Steps { Steps(simulation: self) }

    /// Statements in the order in which they are to be made.
    package var statements: some Sequence<SimulatedStatement> {
        statementPlan.entries.lazy.map { SimulatedStatement(simulation: self, entry: $0) }
    }
}
