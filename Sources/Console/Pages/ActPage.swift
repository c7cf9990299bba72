import Encoding
import Readers

/// What an act would do, before it is confirmed.
package struct ActPage: ConsolePage {
    package let title: String
    /// A sentence each.
    package let effects: [String]
    /// Recorded; nil if the act records none.
    package let reason: String?
    /// Who acts.
    package let by: String
    /// The label of the button that does it.
    package let button: String
    package let action: Address
    /// The hidden fields, besides those of every form and the reason.
    package let fields: [(String, String)]
    /// Where to go without doing it.
    package let back: Address
    /// What cannot be undone, or is not known; nil if there is nothing to say.
    package var warning: String?

    package init(
        title: String, effects: [String], reason: String?, by: String, button: String, action: Address,
        fields: [(String, String)], back: Address, warning: String? = nil
    ) {
        self.title = title
        self.effects = effects
        self.reason = reason
        self.by = by
        self.button = button
        self.action = action
        self.fields = fields
        self.back = back
        self.warning = warning
    }

    package var section: ConsoleSection? { nil }
    package var tables: [ConsoleTable] { [] }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "effects")]) { html in
            html.element("h2", [.text(.id, "effects")], text: "What this does")
            for effect in effects { html.element("p", text: effect) }
            if let warning { html.element("p", [.class("problem")], text: warning) }
            html.element("dl", [.class("facts")]) { html in
                if let reason { html.item("Reason, which is recorded") { $0.text(reason) } }
                html.item("By") { $0.text(by) }
            }
        }
        frame.form(action, to: &html) { html in
            for (name, value) in fields { html.hidden(name, value) }
            if let reason { html.hidden("reason", reason) }
            html.element("button", [.class("primary")], text: button)
            html.link("Do nothing", back)
        }
    }
}
