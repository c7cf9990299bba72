import Console
import Encoding
import Hummingbird

extension ConsoleRoutes {
    /// The stores' reports beside the ledger, whichever stream is chosen: reports are about production.
    func reports(_ visit: ConsoleRequest) async throws -> Outcome {
        let month = try visit.query.text("month")
        if let month, month.utf8.count != 7 || Instant(iso8601: "\(month)-01") == nil {
            throw ConsoleProblem(.badRequest, "Bad request", "month must be one such as 2026-11.")
        }
        return .page(
            ReportsPage(result: await figures.reports(month: month), month: month, address: visit.address))
    }
}
