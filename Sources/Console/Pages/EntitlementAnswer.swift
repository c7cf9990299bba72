import Encoding
import Readers
import Subscriptions

/// Whether an entitlement is active, in a sentence, with the decisive reason; all reasons are folded below it.
struct EntitlementAnswer {
    let explanation: Explanation
    /// Other entitlements with the same answer for the same reason.
    var alike: [Explanation] = []
    /// The start of the unbroken access that makes it active or was the last; nil if it is not known.
    let since: Instant?
    /// The end of the last access, if it is not active; nil if there was none.
    let ended: Instant?
    /// The stream of the app that is joined with the page's; nil if there is none.
    var joinedStream: StreamState?

    /// Most events that one reason lists.
    private static let eventsMax = 5

    func write(in frame: PageFrame, to html: inout HTMLWriter) {
        html.element("li", [.class(kind)]) { html in
            writeHead(frame, to: &html)
            if let reason = explanation.because.first {
                html.element("p") { html in
                    html.text("Because: ")
                    write(reason, frame, to: &html)
                    if let continuation = explanation.continuation {
                        html.text(" Without a gap, the last one known: ")
                        write(continuation, frame, to: &html)
                    }
                    if let ending = explanation.ending {
                        html.text(" Cut short: ")
                        write(ending, frame, to: &html)
                    }
                }
            }
            if let restated = explanation.restated { write(restated, frame, to: &html) }
            html.element("p", [.class("muted")]) { html in
                if explanation.couldChange.isEmpty {
                    html.text(
                        explanation.active
                            ? "No end is known: access lasts until something takes it back, such as a refund."
                            : "Access does not begin again by itself: it needs a purchase, or to be given by hand.")
                }
                for (index, change) in explanation.couldChange.enumerated() {
                    html.text(index > 0 ? " Then: " : "Next: ")
                    if let renewal = change.renewal {
                        html.text("Renews on ")
                        html.time(change.at)
                        html.text("\(renewal).")
                    } else {
                        write(change, to: &html)
                    }
                }
            }
            writeWhy(frame, to: &html)
        }
    }

    private var kind: String {
        guard explanation.active else { return "ended" }
        return explanation.because.first?.rule == .graceGranted ? "grace" : "active"
    }

    /// The names of all entitlements with this answer: `plus`, `plus and pro`, `plus, pro and extra`.
    private var names: String {
        let names = ([explanation] + alike).map(\.entitlement)
        guard names.count > 1 else { return names[0] }
        return "\(names.dropLast().joined(separator: ", ")) and \(names[names.count - 1])"
    }

    /// `plus is active until 3 Oct 2026 03:44:10 UTC (in 3 days), since 3 Sep 2026 03:44:10 UTC`
    private func writeHead(_ frame: PageFrame, to html: inout HTMLWriter) {
        let verb = alike.isEmpty ? "is" : "are"
        html.element("p") { html in
            switch explanation.until {
            case let until? where until < .latest:
                html.element("strong") { html in
                    html.element(
                        "time", [.text(.datetime, until.description)],
                        text: "\(names) \(verb) active until \(until.words)")
                }
                writeDistance(to: until, frame, to: &html)
            case _?: html.element("strong", text: "\(names) \(verb) active for ever")
            case nil:
                html.element("strong", text: "\(names) \(verb) not active")
                guard let ended else { return }
                // An end that was only expected: by what was known, nothing followed it.
                let wasExpected = explanation.knownAt.map { ended > $0 } ?? false
                // What was taken back counts as never bought, so access ended with what was bought before.
                let isTakenBack = explanation.because.first?.rule.effect == .removes
                let verb = wasExpected ? "would have ended" : isTakenBack ? "counts as ended" : "ended"
                html.text(", \(alike.isEmpty ? "it" : "access") \(verb) on ")
                html.time(ended)
                writeDistance(to: ended, frame, to: &html)
            }
            guard let since else { return }
            html.text(explanation.active ? ", since " : "; it had begun on ")
            html.time(since)
        }
    }

    /// ` (in 3 days)`; nothing on a page about another time, where a distance from today would mislead.
    private func writeDistance(to instant: Instant, _ frame: PageFrame, to html: inout HTMLWriter) {
        guard abs(explanation.at.milliseconds - frame.now.milliseconds) < Self.nowMilliseconds else { return }
        html.element("span", [.class("muted")], text: " (\(instant.words(from: frame.now)))")
    }

    private static let nowMilliseconds: Int64 = 60_000

    /// What the answer is by today's knowledge, if that differs.
    private func write(_ restated: Explanation.Restatement, _ frame: PageFrame, to html: inout HTMLWriter) {
        html.element("p", [.class("restated")]) { html in
            html.element("strong", text: "Restated since: ")
            let state =
                switch restated.until {
                case let until? where until < .latest: "active until \(until.words)"
                case _?: "active for ever"
                case nil: explanation.active ? "not active" : "not active either, for another reason"
                }
            html.text("by today’s knowledge it is \(state). ")
            if !explanation.isDecided(by: restated.reason) { write(restated.reason, frame, to: &html) }
        }
    }

    /// One answer for all entitlements that have it for the same reasons, in the order of the first ones.
    static func grouped(_ answers: [EntitlementAnswer]) -> [EntitlementAnswer] {
        var groups: [EntitlementAnswer] = []
        for answer in answers {
            let place = groups.firstIndex { group in
                (group.since, group.ended) == (answer.since, answer.ended)
                    && isAlike(group.explanation, answer.explanation)
            }
            if let place { groups[place].alike.append(answer.explanation) } else { groups.append(answer) }
        }
        return groups
    }

    /// Whether another entitlement has the same answer for the same reasons. Only the rule that maps a product to its
    /// entitlement may differ.
    static func isAlike(_ first: Explanation, _ second: Explanation) -> Bool {
        guard first.active == second.active, first.until == second.until, first.restated == nil,
            second.restated == nil, first.couldChange == second.couldChange
        else { return false }
        return isAlike(first.because, second.because) && isAlike(first.against, second.against)
    }

    private static func isAlike(_ first: [Explanation.Reason], _ second: [Explanation.Reason]) -> Bool {
        first.count == second.count && zip(first, second).allSatisfy { isAlike($0, $1) }
    }

    private static func isAlike(_ first: Explanation.Reason, _ second: Explanation.Reason) -> Bool {
        if first == second { return true }
        guard first.rule == second.rule, first.rule.isOfEntitlementName else { return false }
        return first.positions == second.positions && first.productId == second.productId
    }

    // MARK: - All reasons

    private func writeWhy(_ frame: PageFrame, to html: inout HTMLWriter) {
        html.element("details", [.class("why")]) { html in
            html.element("summary", [.text(.label, "Why: \(names)")], text: "Why")
            write(explanation.because, "Because", frame, to: &html)
            write(explanation.against, "Does not change it", frame, to: &html)
            if !explanation.couldChange.isEmpty {
                html.element("h3", text: "Could change")
                html.element("ul") { html in
                    for change in explanation.couldChange {
                        html.element("li") { html in write(change, to: &html) }
                    }
                }
            }
            html.element("h3", text: "As text")
            html.element(
                "pre",
                [
                    .text(.tabindex, "0"), .text(.role, "region"),
                    .text(.label, "Explanation of \(names)"),
                ],
                text: ([explanation] + alike).map(\.sentence).joined(separator: "\n\n"))
        }
    }

    private func write(
        _ reasons: [Explanation.Reason], _ title: String, _ frame: PageFrame, to html: inout HTMLWriter
    ) {
        guard !reasons.isEmpty else { return }
        html.element("h3", text: title)
        html.element("ul") { html in
            for reason in reasons {
                html.element("li") { html in
                    write(reason, frame, to: &html)
                    let frame = self.frame(frame, of: reason)
                    if let id = reason.originalTransactionId, !reason.text.contains(id) {
                        html.text(" Subscription ")
                        html.idLink(id, frame.subscription(id))
                        html.text(".")
                    }
                    html.text(" ")
                    html.element("small", [.class("muted")], text: "Rule \(reason.rule.rawValue)")
                }
            }
        }
    }

    /// The text of a reason, with links to the events that are its evidence.
    private func write(_ reason: Explanation.Reason, _ frame: PageFrame, to html: inout HTMLWriter) {
        let frame = self.frame(frame, of: reason)
        html.text(shortened(reason.text))
        let shown = reason.positions.suffix(Self.eventsMax)
        for (index, position) in shown.enumerated() {
            let words = reason.by.first { $0.position == position }?.words
            html.text((index == 0 ? " (" : "; ") + (words.map { "\($0), " } ?? "") + "event ")
            html.link("\(position)", frame.event(position))
        }
        let more = reason.positions.count - shown.count
        if !shown.isEmpty { html.text(more > 0 ? " and \(Int64(more).grouped) before)" : ")") }
        html.text(".")
    }

    private func frame(_ frame: PageFrame, of reason: Explanation.Reason) -> PageFrame {
        reason.joinedApp == nil ? frame : frame.of(joinedStream)
    }

    private func write(_ change: Explanation.PossibleChange, to html: inout HTMLWriter) {
        html.time(change.at)
        html.text(": \(shortened(change.text)).")
    }

    /// The text with short forms of the subscriptions that the explanation is about.
    private func shortened(_ text: String) -> String {
        Set((explanation.because + explanation.against).compactMap(\.originalTransactionId))
            .reduce(text) { $0.replacing($1, with: $1.shortenedID) }
    }
}

extension ExplanationRule {
    /// Whether its text names the entitlement.
    fileprivate var isOfEntitlementName: Bool { self == .mapped || self == .ownName }
}
