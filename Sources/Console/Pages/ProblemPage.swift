/// An error within a session, such as an id that is in several apps.
package struct ProblemPage: ConsolePage {
    package let title: String
    let detail: String
    /// What to do next.
    let choices: [(text: String, address: Address)]

    package init(_ title: String, _ detail: String, choices: [(text: String, address: Address)] = []) {
        self.title = title
        self.detail = detail
        self.choices = choices
    }

    package var section: ConsoleSection? { nil }
    package var tables: [ConsoleTable] { [] }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        html.element("p", text: detail)
        guard !choices.isEmpty else { return }
        html.element("ul") { html in
            for choice in choices {
                html.element("li") { $0.link(choice.text, choice.address) }
            }
        }
    }
}
