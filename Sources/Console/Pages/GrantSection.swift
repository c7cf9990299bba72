import Encoding
import Readers
import Subscriptions

/// What a customer was given by hand, with the forms to take it back and to give more.
struct GrantSection: Sendable {
    /// The backend's id of the customer; nil if the customer is not one of the backend's.
    let customerId: String?
    let grants: [Grant]
    /// The entitlements that the app's products give.
    let offered: [String]

    struct Grant: Sendable {
        let statement: GrantStatement
        let position: Int64?
        /// Nil for the page's own app.
        let joinedApp: String?
    }

    init(customerId: String?, _ lines: [ExplainedCustomers.OwnedLine], offered: [String]) {
        self.customerId = customerId
        self.offered = offered
        grants = lines.flatMap { line in
            line.subscription.transactions.compactMap { row in
                GrantStatement(of: row.transaction).map {
                    Grant(statement: $0, position: line.positions.max(), joinedApp: line.joinedApp)
                }
            }
        }.sorted { ($0.statement.until ?? .latest, $0.statement.id) > ($1.statement.until ?? .latest, $1.statement.id) }
    }

    func write(in frame: PageFrame, to html: inout HTMLWriter) {
        guard !grants.isEmpty || frame.mayAct else { return }
        html.element("section", [.text(.labelledby, "grants")]) { html in
            html.element("h2", [.text(.id, "grants")], text: "Given by hand")
            if !grants.isEmpty {
                html.element("ul", [.class("answers")]) { html in
                    for grant in grants { write(grant, in: frame, to: &html) }
                }
            }
            if frame.mayAct { writeForm(in: frame, to: &html) }
        }
    }

    private func write(_ grant: Grant, in frame: PageFrame, to html: inout HTMLWriter) {
        let statement = grant.statement
        let isInForce = statement.until.map { $0 > frame.now } ?? true
        html.element("li", isInForce ? [.class("active")] : []) { html in
            html.element("p") { html in
                html.element("strong", text: statement.entitlement)
                html.text(" from ")
                html.time(statement.from)
                html.text(statement.until == nil ? ", without an end" : " until ")
                if let until = statement.until { html.time(until) }
                if let app = grant.joinedApp { html.text(", in \(app)") }
            }
            html.element("p") { html in
                html.text(statement.isRevocation ? "Taken back" : "Given")
                if let by = statement.by { html.text(" by \(by)") }
                html.text(": \(statement.reason) ")
                if let position = grant.position, grant.joinedApp == nil {
                    html.link("event \(position)", frame.event(position))
                }
            }
            guard frame.mayAct, isInForce, grant.joinedApp == nil, let customerId else { return }
            frame.form(Address("customers", customerId, "grants"), to: &html) { html in
                html.hidden("do", "revoke")
                html.hidden("grant", statement.id)
                html.field("reason", "Reason", isRequired: true)
                html.element("button", [.text(.label, "Take \(statement.entitlement) back…")], text: "Take back…")
            }
        }
    }

    private func writeForm(in frame: PageFrame, to html: inout HTMLWriter) {
        guard let customerId else {
            html.element(
                "p", [.class("muted")],
                text: "Access is given to a customer of your backend, and none is linked to this id. "
                    + "The backend links it by PUT /customers/{customerId}/links, which its developers know; "
                    + "see “Customers” in the article “HTTP API”. The form appears here then.")
            return
        }
        frame.form(Address("customers", customerId, "grants"), to: &html) { html in
            html.hidden("do", "give")
            html.element("label") { html in
                html.text("Entitlement")
                html.void(
                    "input",
                    [
                        .text(.name, "entitlement"), .text(.type, "text"), .text(.autocomplete, "off"),
                        .text(.list, "offered"), .flag(.required),
                    ])
            }
            html.element("datalist", [.text(.id, "offered")]) { html in
                for name in offered.prefix(Self.offeredMax) {
                    html.element("option", [.text(.value, name)]) { _ in }
                }
            }
            html.choice("length", "How long", Self.lengths)
            html.field("until", "Or until, UTC, such as 2026-10-03", isRequired: false)
            html.field("reason", "Reason", isRequired: true)
            html.element("button", text: "Give access…")
        }
    }

    /// Most entitlements in the list, for a page below 100 KB.
    private static let offeredMax = 100
    private static let lengths = [
        ("", "choose"), ("1", "1 day"), ("3", "3 days"), ("7", "7 days"), ("10", "10 days"), ("14", "14 days"),
        ("30", "30 days"),
        ("90", "90 days"), ("365", "365 days"), ("ever", "for ever"),
    ]
}
