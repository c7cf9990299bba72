import Simulation
import Subscriptions
import TestSupport
import Testing

/// Compares two independent implementations of the same rules.
@Suite("The fold and the simulator agree on access")
struct CrossCheckTests {
    struct Course: Sendable, CustomTestStringConvertible {
        let order: Simulation.Order
        let duplicate: Double
        let lose: Double
        let receipt: CrossCheck.Receipt

        let format: Simulation.Format

        var testDescription: String {
            "\(format.rawValue), \(order.rawValue), \(duplicate) twice, \(lose) lost, received \(receipt)"
        }
    }

    /// In the normal run, what arrives late does so in the orders that differ most from that of time.
    static let courses = [Simulation.Format.v1, .v2, .both].flatMap { format in
        CrossCheck.Receipt.allCases.flatMap { receipt in
            let courses = [
                Course(order: .reversed, duplicate: 0, lose: 0, receipt: receipt, format: format),
                Course(order: .shuffled, duplicate: 0.1, lose: 0.05, receipt: receipt, format: format),
                Course(order: .inOrder, duplicate: 0, lose: 0, receipt: receipt, format: format),
                Course(order: .shuffled, duplicate: 0.3, lose: 0, receipt: receipt, format: format),
            ]
            return courses.prefix(receipt == .late ? TestScale.count(2, full: 4) : 4)
        }
    }

    @Test("75 stories give the expected answers", arguments: courses)
    func stories(_ course: Course) async throws {
        var settings = Simulation.Settings(app: testApp)
        settings.app.receiptCharacters = 64
        settings.seed = TestSeed.value
        settings.subscriptions = 75
        settings.format = course.format
        settings.order = course.order
        settings.duplicate = course.duplicate
        settings.lose = course.lose

        let differences = try await CrossCheck.differences(settings, course.receipt)

        #expect(differences.isEmpty, "\(differences.count): \(differences.prefix(5).map(\.description))")
    }
}
