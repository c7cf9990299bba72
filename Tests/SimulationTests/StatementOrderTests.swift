import Encoding
import Simulation
import TestSupport
import Testing

@Suite("Link statements are sent between the notifications, in order for each story")
struct StatementOrderTests {
    private func run(_ change: (inout Simulation.Settings) -> Void) throws -> Simulation {
        var settings = Simulation.Settings(app: testApp)
        settings.seed = TestSeed.value
        settings.stories = [.linked, .linkMoved, .renewals]
        settings.subscriptions = 60
        change(&settings)
        return try #require(Simulation(settings))
    }

    struct Course: Sendable {
        let order: Simulation.Order
        let duplicate: Double
    }

    static let courses = Simulation.Order.allCases.flatMap { order in
        [0, 0.5, 1].map { Course(order: order, duplicate: $0) }
    }

    @Test("every statement is sent once, or twice in a row if it is repeated", arguments: courses)
    func order(_ course: Course) throws {
        let simulation = try run {
            $0.order = course.order
            $0.duplicate = course.duplicate
        }
        var sent: [String: [SimulatedLinks]] = [:]
        var latest: [Substring: Int] = [:]
        var notifications: [String] = []

        for (position, step) in simulation.steps.enumerated() {
            switch step {
            case .notification(let delivery): notifications.append(delivery.notification.notificationUUID)
            case .statement(let statement):
                let backendCustomerId = statement.statement.backendCustomerId
                // The last part of the id is the number of the customer in the story.
                let end = try #require(backendCustomerId.lastIndex(of: "-"))
                let story = backendCustomerId[..<end]
                #expect(statement.predecessor == latest[story])
                latest[story] = position
                sent[backendCustomerId, default: []].append(statement.statement)
            }
        }

        #expect(notifications == simulation.deliveries.map(\.notification.notificationUUID))
        for index in 0..<60 {
            let rendered = simulation.storyteller.story(at: index)
            for (backendCustomerId, wanted) in Dictionary(grouping: rendered.statements, by: \.backendCustomerId) {
                let got = sent.removeValue(forKey: backendCustomerId) ?? []
                let distinct = got.enumerated().filter { $0.offset == 0 || got[$0.offset - 1] != $0.element }
                #expect(distinct.map(\.element) == wanted)
                #expect(course.duplicate != 0 || got.count == wanted.count)
                #expect(course.duplicate != 1 || got.count == 2 * wanted.count)
            }
        }
        #expect(sent.isEmpty)
    }

    @Test("in order, a statement is sent after notifications signed before it and before later ones")
    func inOrder() throws {
        var last = Instant.earliest
        var count = 0
        for step in try run({ _ in }).steps {
            let instant =
                switch step {
                case .notification(let delivery): delivery.signedDate
                case .statement(let statement): statement.statement.sentAt
                }
            #expect(last <= instant)
            last = instant
            count += 1
        }
        #expect(count > 200)
    }

    @Test("shuffled, statements are spread over the run, and equal seeds give equal places")
    func shuffled() throws {
        func places(_ seed: UInt64) throws -> [Int] {
            let steps = try run {
                $0.order = .shuffled
                $0.seed = seed
            }.steps
            return steps.indices.filter { if case .statement = steps[$0] { true } else { false } }
        }

        let first = try places(5)

        #expect(try places(5) == first)
        #expect(try places(6) != first)
        #expect(first.count == 120)
        #expect(first[10] < first[110] / 2)
    }
}
