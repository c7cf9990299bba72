/// A page without a session: the login, and errors before one.
package enum BarePage {
    /// - Parameters:
    ///   - problem: Why the last attempt failed.
    ///   - ticket: A one-time login, which replaces the token.
    package static func login(problem: String? = nil, ticket: String? = nil, back: String? = nil) -> [UInt8] {
        document("Log in") { html in
            if let problem { html.element("p", [.class("problem"), .text(.role, "alert")], text: problem) }
            html.element("form", [.text(.method, "post"), .action(Address("login")), .class("login")]) { html in
                if let back { html.hidden("back", back) }
                if let ticket {
                    html.element("p", text: "This link logs in once.")
                    html.hidden("ticket", ticket)
                } else {
                    html.element("label", [.text(.for, "token")], text: "Token")
                    html.void(
                        "input",
                        [
                            .text(.type, "password"), .text(.name, "token"), .text(.id, "token"),
                            .text(.autocomplete, "current-password"), .flag(.required), .flag(.autofocus),
                            .text(.describedby, "token-help"),
                        ])
                    html.element("p", [.text(.id, "token-help"), .class("muted")]) { html in
                        html.text("From ")
                        html.element("code", text: "subledger token create --scope read --name me")
                        html.text(". A session lasts eight hours, or one hour without a request.")
                    }
                }
                html.element("button", [.class("primary")], text: "Log in")
            }
        }
    }

    /// An error of a request that has no session, or whose frame cannot be read.
    package static func problem(_ title: String, _ detail: String) -> [UInt8] {
        document(title) { html in
            html.element("p", text: detail)
            html.element("p") { $0.link("Overview", Address()) }
        }
    }

    private static func document(_ title: String, _ content: (inout HTMLWriter) -> Void) -> [UInt8] {
        HTMLWriter.document { html in
            html.element("html", [.text(.lang, "en"), .class("theme-system")]) { html in
                PageFrame.writeHead(title, to: &html)
                html.element("body", [.class("bare")]) { html in
                    html.element("main", [.text(.id, "content")]) { html in
                        html.element("p", [.class("brand")], text: "Subledger")
                        html.element("h1", text: title)
                        content(&html)
                    }
                }
            }
        }
    }
}
