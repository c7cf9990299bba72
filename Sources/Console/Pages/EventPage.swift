import Encoding
import EventLog
import Readers

/// One event: what it says, how far it is trusted, and what it changed.
package struct SingleEventPage: ConsolePage {
    package let record: EventRecord
    /// What it changed of each subscription; nil if that was not computed.
    package let effects: [CustomerReader.Effect]?
    package let names: ProductNames
    package let head: Int64
    package let folded: Int64
    package let address: Address

    package init(
        record: EventRecord, effects: [CustomerReader.Effect]?, names: ProductNames, head: Int64, folded: Int64,
        address: Address
    ) {
        self.record = record
        self.effects = effects
        self.names = names
        self.head = head
        self.folded = folded
        self.address = address
    }

    private var event: StoredEvent { record.event }
    package var title: String {
        "Event \(event.position): \(event.words)"
    }
    package var section: ConsoleSection? { .events }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }

    package var tables: [ConsoleTable] {
        [
            .effects(
                effects ?? [], at: event.effectiveAt, stream: stream,
                empty: event.lines.isEmpty
                    ? "It is about no subscription."
                    : effects == nil
                        ? "Not compared: it has no effect yet, or too many events are about the same store account."
                        : "Nothing: other events had stated all of it before."),
            .changes(
                record.changes, name: "changes",
                caption: "Changes published for it, and for events processed with it", stream: stream, names: names,
                sql: record.changesSQL.text),
            ConsoleTable(
                "defects", caption: "Fields that could not be read", columns: [.init("Path"), .init("Problem")],
                rows: event.defectList.map { [.code($0.path), .text($0.problem)] }, empty: "None: every field was read."
            ),
            ConsoleTable(
                "conflicts", caption: "Other bodies with the same identity",
                columns: [.init("SHA-256 of the body"), .init("Received")],
                rows: record.conflicts.map { [.code($0.bodySHA256), .time($0.receivedAt)] },
                empty: "None: it never arrived with another body."),
            ConsoleTable(
                "verdicts", caption: "Verdicts about its certificates", columns: [.init("Decided"), .init("Verdict")],
                rows: record.verdicts.map { [.time($0.decidedAt), .text($0.verdict)] },
                empty: record.chainId == nil ? "It was not signed with certificates." : "None yet."),
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        if let skip = record.skip {
            html.element("p", [.class("problem")]) { html in
                html.text("Skipped by \(skip.by) at ")
                html.time(skip.at)
                html.text(": \(skip.reason). It has no effect on any entitlement.")
            }
        } else if event.position > folded {
            html.element("p", [.class("note")], text: "It waits to be processed, and has had no effect so far.")
        }
        html.element("dl", [.class("facts")]) { html in
            html.item("Received") { $0.time(event.receivedAt, from: frame.now) }
            html.item("Occurred") { html in
                if let occurredAt = event.occurredAt {
                    html.time(occurredAt)
                } else {
                    html.text("the body has no date")
                }
                if let late = event.lateText { html.text(", \(late)") }
            }
            html.item("Source") { $0.element("code", text: event.source) }
            html.item("Kind") { $0.text(event.kind.replacing("_", with: " ")) }
            html.item("About") { html in
                let lines = event.lines
                if lines.isEmpty { html.text("no subscription") }
                for (index, id) in lines.prefix(10).enumerated() {
                    if index > 0 { html.text(", ") }
                    html.link(id, frame.subscription(id))
                }
                if lines.count > 10 { html.text(" and \(lines.count - 10) more") }
            }
            html.item("Customer") { html in
                if let link = event.linkedCustomer {
                    html.link(link, frame.customer(link, kind: "link"))
                } else if let first = event.lines.first {
                    html.link("of \(first)", frame.customer(first, kind: "subscription"))
                } else {
                    html.text("none")
                }
            }
            html.item("Identity") { $0.element("code", text: event.dedupeKey.hexadecimal) }
            html.item("SHA-256 of the body") { $0.element("code", text: record.bodySHA256) }
            html.item("Body") { html in
                switch record.bodyPlace {
                case "database": html.text("in the database")
                case "archive":
                    html.text("in archive file ")
                    html.element("code", text: record.archiveFile ?? "")
                case "erased": html.text("erased")
                case "wrong_time": html.text("stored under another time: run subledger verify")
                default: html.text("missing: run subledger verify")
                }
            }
            html.item("Certificates when received") { $0.text(record.revocation ?? "not signed") }
            html.item("Certificates now") {
                $0.text(record.verdicts.last?.verdict ?? record.revocation ?? "not signed")
            }
        }
        html.element("nav", [.class("pages"), .text(.label, "Neighbours")]) { html in
            if event.position > 1 { html.link("Earlier", frame.event(event.position - 1), [.text(.rel, "prev")]) }
            if event.position < head { html.link("Later", frame.event(event.position + 1), [.text(.rel, "next")]) }
        }
        for table in tables { table.write(on: address, to: &html) }
        html.element("div", [.class("table")]) { html in
            html.element("h2", [.text(.id, "facts")], text: "Facts")
            html.element("pre", [.text(.tabindex, "0"), .text(.role, "region"), .text(.labelledby, "facts")]) {
                $0.element("code", text: event.indentedFacts)
            }
        }
    }
}

extension StoredEvent {
    /// As the store calls it, such as `SUBSCRIBED INITIAL_BUY`, or its kind.
    var words: String {
        let type = [type, subtype].compactMap(\.self).joined(separator: " ")
        return type.isEmpty ? kind.replacing("_", with: " ") : type
    }

    /// From when on it counts: an answer of Google when it was given, all others at their own time.
    fileprivate var effectiveAt: Instant {
        source.hasPrefix("google") ? receivedAt : occurredAt ?? receivedAt
    }

    /// The backend's customer of a link; nil for other events.
    var linkedCustomer: String? {
        (try? JSONDocument(facts).root)?["link"]?.string("backendCustomerId")
    }

    /// The facts with a member a line, at most 20,000 characters.
    var indentedFacts: String {
        guard let root = try? JSONDocument(facts).root else { return String(decoding: facts, as: UTF8.self) }
        var text = ""
        Self.indent(root, "", into: &text)
        return text.utf8.count > 20_000 ? String(text.prefix(20_000)) + "…" : text
    }

    private static func indent(_ value: JSONValue, _ margin: String, into text: inout String) {
        let deeper = margin + "  "
        if value.isObject, !value.isEmptyObject {
            text += "{\n"
            let members = value.members
            for (index, member) in members.enumerated() {
                text += "\(deeper)\(member.key.string ?? ""): "
                indent(member.value, deeper, into: &text)
                text += index + 1 < members.count ? ",\n" : "\n"
            }
            text += "\(margin)}"
        } else if value.isArray, !value.elements.isEmpty {
            text += "[\n"
            let elements = value.elements
            for (index, element) in elements.enumerated() {
                text += deeper
                indent(element, deeper, into: &text)
                text += index + 1 < elements.count ? ",\n" : "\n"
            }
            text += "\(margin)]"
        } else {
            text += value.string.map { "\"\($0)\"" } ?? String(decoding: value.bytes, as: UTF8.self)
        }
    }
}

extension ConsoleTable {
    static func changes(
        _ changes: [ChangeRow], name: String, caption: String, stream: String?, names: ProductNames, sql: String?
    ) -> ConsoleTable {
        ConsoleTable(
            name, caption: caption,
            columns: [
                .init("Published"), .init("What"), .init("By"), .init("At"), .init("Until"), .init("Product"),
                .init("Subscription"), .init("Number", isNumber: true),
            ],
            rows: changes.map { change in
                [
                    .time(change.publishedAt), .text(change.what),
                    change.position.map { .link("event \($0)", Address("events", "\($0)").with("stream", stream)) }
                        ?? .text(change.causeWords),
                    .time(change.at), .optional(change.until), .product(change.productId, names),
                    .link(
                        change.originalTransactionId,
                        Address("subscriptions", change.originalTransactionId).with("stream", stream)),
                    .number(change.number),
                ]
            }, empty: "None with its number. Of events that are processed together, a change names the last.",
            sql: sql)
    }
}
