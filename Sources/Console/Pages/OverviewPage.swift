import Encoding
import Readers

/// The first page: what happens now, and the main figures.
package struct OverviewPage: ConsolePage {
    package let state: StreamState?
    package let activity: StreamActivity?
    /// Refused notifications of this process by reason.
    package let refused: [(reason: String, count: Int64)]
    package let names: ProductNames
    package let system: SystemState
    package let active: Result<FigureRows, FigureFailure>?
    package let mrr: Result<FigureRows, FigureFailure>?
    package let movements: Result<FigureRows, FigureFailure>?
    /// Of this month.
    package let revenue: Result<FigureRows, FigureFailure>?
    /// Where Apple posts.
    package let address: Address

    package init(
        state: StreamState?, activity: StreamActivity?, refused: [(reason: String, count: Int64)], names: ProductNames,
        system: SystemState,
        active: Result<FigureRows, FigureFailure>?, mrr: Result<FigureRows, FigureFailure>?,
        movements: Result<FigureRows, FigureFailure>?, revenue: Result<FigureRows, FigureFailure>?, address: Address
    ) {
        self.state = state
        self.activity = activity
        self.refused = refused
        self.names = names
        self.system = system
        self.active = active
        self.mrr = mrr
        self.movements = movements
        self.revenue = revenue
        self.address = address
    }

    package var title: String { "Overview" }
    package var section: ConsoleSection? { .overview }
    package var tables: [ConsoleTable] {
        guard let activity else { return [] }
        return [
            .changes(
                activity.changes, name: "changes", caption: "Latest changes", stream: state?.text, names: names,
                sql: activity.changesSQL.text)
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        guard let state, let activity else {
            html.element("p", [.class("empty")]) { html in
                html.text("Nothing yet: no event has arrived. Point App Store Connect at ")
                html.element("code", text: "https://YOUR-HOST/apple/notifications")
                html.text(", then request a test notification with ")
                html.element("code", text: "subledger probe")
                html.text(". For Google Play, let the push subscription post to ")
                html.element("code", text: "https://YOUR-HOST/google/notifications")
                html.text(". Purchases that customers have already come with ")
                html.element("code", text: "subledger import")
                html.text(".")
            }
            writeAttention(frame, to: &html)
            return
        }
        writeFigures(frame, to: &html)
        html.element("div", [.class("caption")]) { html in
            html.element("button", [.text(.id, "live"), .text(.type, "button"), .flag(.hidden)], text: "Live: off")
            html.element("span", [.text(.id, "live-status"), .text(.live, "polite"), .class("muted")]) { _ in }
        }
        html.element("div", [.text(.id, "live-part")]) { html in
            writeNow(state, activity, frame, to: &html)
            writeAttention(frame, to: &html)
            for table in tables { table.write(on: address, to: &html) }
        }
    }

    // MARK: - Figures

    private func writeFigures(_ frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "figures")]) { html in
            html.element("h2", [.text(.id, "figures")], text: "Figures")
            html.element("dl", [.class("tiles")]) { html in
                tile("Paying", Self.value(active) { $0[1] }, "active", frame, to: &html)
                tile("Free trials", Self.value(active) { $0[2] }, "active", frame, to: &html)
                let monthly = mrr.flatMap { try? $0.get() }
                let day = monthly?.rows.last?[0]
                let latest = monthly?.rows.filter { $0[0] == day } ?? []
                if latest.isEmpty { tile("MRR", Self.value(mrr) { $0[2] }, "mrr", frame, to: &html) }
                for row in latest {
                    tile(
                        "MRR, \(row[1] ?? "no price")", .known(row[2].map { FigurePage.grouped($0, row[1]) } ?? "0"),
                        "mrr", frame, to: &html)
                }
                let sold = revenue.flatMap { try? $0.get() }?.rows ?? []
                if sold.isEmpty {
                    tile("Revenue this month", Self.value(revenue) { $0[3] }, "revenue", frame, to: &html)
                }
                for row in sold {
                    tile(
                        "Revenue this month, \(FigurePage.currencyName(row[2]))",
                        .known(row[3].map { FigurePage.grouped($0, row[2]) } ?? "0"), "revenue", frame, to: &html)
                }
                tile(
                    "Net movement this month", Self.value(movements) { Self.net($0).grouped }, "movements", frame,
                    to: &html)
            }
        }
    }

    private enum Value {
        case known(String)
        /// The text says why.
        case missing(String)
    }

    /// The last row of a figure; 0 if it has none.
    private static func value(
        _ result: Result<FigureRows, FigureFailure>?, _ text: ([String?]) -> String?
    ) -> Value {
        switch result {
        case nil: .missing("still being read: load the page again")
        case .failure: .missing("could not be read in time")
        case .success(let found): .known(found.rows.last.flatMap(text) ?? "0")
        }
    }

    private func tile(
        _ term: String, _ value: Value, _ figure: String, _ frame: PageFrame, to html: inout HTMLWriter
    ) {
        html.item(term) { html in
            switch value {
            case .known(let text): html.link(text, frame.here(Address("figures", figure)))
            case .missing(let reason):
                html.link("–", frame.here(Address("figures", figure)), [.text(.label, "\(term): \(reason)")])
                html.element("small", text: reason)
            }
        }
    }

    /// New, converted, recovered and resubscribed less churned.
    static func net(_ row: [String?]) -> Int64 {
        let numbers = row.map { $0.flatMap { Int64($0) } ?? 0 }
        guard numbers.count == 8 else { return 0 }
        return numbers[1] + numbers[2] + numbers[3] + numbers[4] - numbers[7]
    }

    // MARK: - Now

    private func writeNow(
        _ state: StreamState, _ activity: StreamActivity, _ frame: PageFrame, to html: inout HTMLWriter
    ) {
        html.element("section", [.text(.labelledby, "now")]) { html in
            html.element("h2", [.text(.id, "now")], text: "Now")
            html.element("dl", [.class("tiles")]) { html in
                html.item("Events today") { html in
                    html.link(activity.today.grouped, frame.here(Address("events")))
                    html.element("small", text: "a week ago until this time: \(activity.weekAgo.grouped)")
                }
                html.item("Processed") { html in
                    html.text(state.folded.grouped)
                    html.element("small", text: "of \(state.head.grouped)")
                }
                html.item("From the store to here") { html in
                    guard let lag = activity.lag else { return html.text("–") }
                    html.text(Self.seconds(lag.medianSeconds))
                    html.element("small", text: "99th percentile \(Self.seconds(lag.p99Seconds)), last 1000")
                }
                html.item("Refused since the start") { html in
                    html.text(refused.reduce(0) { $0 + $1.count }.grouped)
                    // Metrics have a zero for every reason.
                    let reasons = refused.filter { $0.count > 0 }.sorted { $0.count > $1.count }
                    html.element(
                        "small",
                        text: reasons.isEmpty
                            ? "by this process"
                            : reasons.map { "\($0.reason.replacing("_", with: " ")) \($0.count.grouped)" }
                                .joined(separator: ", "))
                }
            }
            let most = activity.spans.max() ?? 0
            guard most > 0 else {
                html.element("p", [.class("muted")], text: "No event in the last 24 hours.")
                return
            }
            Sparkline(values: activity.spans).write(
                "Events in each five minutes of the last 24 hours, at most \(most.grouped)", to: &html)
        }
    }

    private static func seconds(_ seconds: Double) -> String {
        switch abs(seconds) {
        case ..<10: "\((seconds * 10).rounded() / 10) s"
        case ..<120: "\(Int(seconds)) s"
        case ..<7200: "\(Int(seconds / 60)) min"
        case ..<172_800: "\(Int(seconds / 3600)) h"
        default: "\(Int(seconds / 86_400)) days"
        }
    }

    private func writeAttention(_ frame: PageFrame, to html: inout HTMLWriter) {
        var sentences: [String] = []
        for stream in frame.streams {
            guard let stall = stream.stall else { continue }
            sentences.append(
                "\(stream.text) is stalled at position \(stall.position) (\(stall.cause)) since \(stall.since.shortText)"
            )
        }
        let quarantined = system.quarantine.reduce(0) { $0 + $1.notifications }
        if quarantined > 0 {
            sentences.append("\(quarantined) notifications wait in quarantine: their app is not configured")
        }
        if !system.skips.isEmpty { sentences.append("\(system.skips.count) events are skipped") }
        guard !sentences.isEmpty else { return }
        html.element("p", [.class("problem")]) { html in
            html.text(sentences.joined(separator: "; ") + ". ")
            html.link("What to do", frame.here(Address("system")))
        }
    }
}
