import Encoding
import Readers

/// The state of the server, and what an operator should do.
package struct SystemPage: ConsolePage {
    package let state: SystemState
    package let streams: [StreamState]
    /// The conditions of the health check that are not ok.
    package let conditions: [(name: String, detail: String)]
    package let now: Instant
    package let address: Address

    package init(
        state: SystemState, streams: [StreamState], conditions: [(name: String, detail: String)], now: Instant,
        address: Address
    ) {
        self.state = state
        self.streams = streams
        self.conditions = conditions
        self.now = now
        self.address = address
    }

    package var title: String { "System" }
    package var section: ConsoleSection? { .system }

    package var tables: [ConsoleTable] {
        [
            ConsoleTable(
                "streams", caption: "Streams",
                columns: [
                    .init("App"), .init("Environment"), .init("Head", isNumber: true),
                    .init("Processed", isNumber: true),
                    .init("Waiting", isNumber: true), .init("Oldest"), .init("Stalled"),
                ],
                rows: streams.map { stream in
                    [
                        .text(stream.app), .text(stream.environment), .number(stream.head), .number(stream.folded),
                        .number(stream.waiting), .optional(stream.waitingSince),
                        .optional(
                            stream.stall.map {
                                "after position \($0.position), \($0.cause), since \($0.since.shortText)"
                            }),
                    ]
                }, empty: "No event has arrived yet: point the stores at this server, see Overview."),
            ConsoleTable(
                "skips", caption: "Skipped events",
                columns: [
                    .init("App"), .init("Environment"), .init("Event", isNumber: true), .init("Reason"),
                    .init("Skipped"),
                    .init("By"),
                ],
                rows: state.skips.map { skip in
                    [
                        .text(skip.app), .text(skip.environment),
                        .link(
                            "\(skip.position)",
                            Address("events", "\(skip.position)").with("stream", "\(skip.environment):\(skip.app)")),
                        .text(skip.reason), .time(skip.at), .text(skip.by),
                    ]
                }, empty: "None is skipped: every event counts."),
            ConsoleTable(
                "quarantine", caption: "Quarantine: notifications of apps that are not configured",
                columns: [
                    .init("App"), .init("Environment"), .init("Notifications", isNumber: true),
                    .init("Bytes", isNumber: true), .init("Oldest"),
                ],
                rows: state.quarantine.map { kept in
                    [
                        .text(kept.app), .text(kept.environment), .number(kept.notifications), .number(kept.bytes),
                        .time(kept.oldest),
                    ]
                }, empty: "None: each notification is of a configured app."),
            ConsoleTable(
                "verdicts", caption: "Certificate chains by their latest verdict",
                columns: [.init("Verdict"), .init("Chains", isNumber: true), .init("Latest")],
                rows: state.verdicts.map { [.text($0.verdict), .number($0.chains), .time($0.latest)] },
                empty: "None yet: the first signed notification brings one."),
            ConsoleTable(
                "audits", caption: "Comparison with Apple's notification history: the latest day",
                columns: [
                    .init("App"), .init("Environment"), .init("Day"), .init("Made", isNumber: true),
                    .init("Arrived", isNumber: true), .init("Fetched", isNumber: true), .init("Lost", isNumber: true),
                    .init("Compared"),
                ],
                rows: state.audits.map { audit in
                    [
                        .text(audit.app), .text(audit.environment), .text(audit.day), .number(audit.made),
                        .number(audit.arrived), .number(audit.fetched), .number(audit.lost), .time(audit.at),
                    ]
                }, empty: "None yet: Apple is asked a day later, for apps with a key of the App Store Server API."),
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        let alerts = alerts
        html.element("p", [.class("muted")]) { html in
            html.text("All of this was checked at ")
            html.time(now)
            html.text(".")
        }
        html.element("section", [.text(.labelledby, "alerts")]) { html in
            html.element("h2", [.text(.id, "alerts")], text: "To do")
            guard !alerts.isEmpty else {
                html.element("p", [.class("empty")], text: "Nothing.")
                return
            }
            html.element("ul", [.class("answers")]) { html in
                for alert in alerts {
                    html.element("li") { html in
                        html.element("p", text: alert.sentence)
                        if let command = alert.command { html.element("p") { $0.element("code", text: command) } }
                    }
                }
            }
        }
        for table in tables { table.write(on: address, to: &html) }
        html.element("p", [.class("muted")]) { html in
            html.text("Moving here from another service? ")
            html.link("Compare access", frame.here(Address("compare")))
            html.text(" before you switch.")
        }
    }

    private var alerts: [(sentence: String, command: String?)] {
        var alerts = conditions.map { (sentence: "\($0.name): \($0.detail).", command: String?.none) }
        for stream in streams {
            guard let stall = stream.stall, stall.cause == "event" || stall.cause == "refold" else { continue }
            alerts.append(
                (
                    "Event \(stall.position + 1) of \(stream.text) cannot be processed. Entitlements of this stream are those before it.",
                    "subledger projector skip \(stall.position + 1) --app \(Self.quoted(stream.app)) --environment "
                        + "\(stream.environment) --reason \"…\""
                ))
        }
        for kept in state.quarantine {
            alerts.append(
                (
                    "\(kept.notifications) notifications of \(kept.app) (\(kept.environment)) are kept until the app is configured: add it to the apps file and restart.",
                    nil
                ))
        }
        for audit in state.audits where audit.lost > 0 {
            alerts.append(
                ("Apple delivered \(audit.lost) notifications of \(audit.day) that were not stored.", "subledger audit")
            )
        }
        if let revoked = state.verdicts.first(where: { $0.verdict == "revoked" }) {
            alerts.append(("\(revoked.chains) certificate chains are revoked.", nil))
        }
        return alerts
    }

    /// Quoted for a shell.
    private static func quoted(_ text: String) -> String {
        "'\(text.replacing("'", with: "'\\''"))'"
    }
}
