import Console
import Encoding
import EventLog
import Hummingbird
import Readers
import Subscriptions

extension ConsoleRoutes {
    private static let toleranceDefault = 1

    func comparison(
        _ result: ComparePage.Result?, problem: String?, tolerance: Int = Self.toleranceDefault, _ visit: ConsoleRequest
    ) -> ComparePage {
        ComparePage(result: result, problem: problem, tolerance: tolerance, address: visit.address)
    }

    /// Compares what another service answers about its customers with the chosen stream. Changes nothing, so any session
    /// may.
    func compare(_ request: Request, _ session: ConsoleSession) async throws -> Response {
        try await answering(
            request, session, bytesMax: Limits.consoleComparisonBytesMax, at: Address("compare")
        ) { form, visit in
            let (_, key) = try visit.someStreamKey()
            let at = try form.instant("at", label: "At") ?? visit.now
            let tolerance = try form.number("tolerance").map { Int(min($0, 86_400)) } ?? Self.toleranceDefault
            let text = form.content(file: "file", text: "text")
            guard text.contains(where: { $0 > UInt8(ascii: " ") }) else {
                throw ConsoleProblem(.badRequest, "Not compared", "Choose a file, or paste its text.")
            }
            do {
                let compared = try await comparisons.admitting {
                    try await Self.result(
                        AccessComparison(
                            customers, app: key.app, environment: key.environment, at: at,
                            tolerance: .seconds(tolerance), explainedMax: Limits.consoleDifferencesMax,
                            deadline: .now + Limits.consoleComparisonWaitMax), text, at)
                }
                guard let result = compared else {
                    throw ConsoleProblem(
                        .serviceUnavailable, "Not compared",
                        "\(Limits.consoleComparisonsMax) comparisons are being made, which is as many as there may be. "
                            + "Try again in a minute.")
                }
                return ConsoleResponse.html(
                    .ok,
                    visit.frame.html(self.comparison(result, problem: nil, tolerance: tolerance, visit)))
            } catch {
                guard let problem = Self.problem(error) else { throw error }
                return ConsoleResponse.html(
                    .badRequest,
                    visit.frame.html(self.comparison(nil, problem: problem, tolerance: tolerance, visit)))
            }
        }
    }

    private static func result(
        _ comparison: AccessComparison, _ text: [UInt8], _ at: Instant
    ) async throws -> ComparePage.Result {
        var comparison = comparison
        var listed: [AccessDifference] = []
        do {
            var file = try AccessFile(TextRecords(text: text))
            while let differences = try await comparison.next(of: &file) {
                listed += differences.prefix(Limits.consoleDifferencesMax - listed.count)
            }
        } catch is AccessComparison.Late {
            throw ConsoleProblem(
                .contentTooLarge, "Not compared",
                "After \(Limits.consoleComparisonWaitMax.components.seconds) seconds, "
                    + "\(Int64(comparison.summary.customers).grouped) customers were compared. Compare parts of the file, "
                    + "or use the command subledger compare-access.")
        }
        return ComparePage.Result(summary: comparison.summary, differences: listed, at: at)
    }

    /// What is wrong with a file; nil for other errors.
    private static func problem(_ error: any Error) -> String? {
        switch error {
        case let malformed as CSVRecords.Malformed: "Line \(malformed.line): \(malformed.problem)."
        case let other as TextRecords.OtherFormat: "The file \(other.problem)."
        case AccessComparison.Ambiguous.severalApps, AccessComparison.Ambiguous.severalKinds:
            "An id of the file leads to different customers."
        default: nil
        }
    }
}
