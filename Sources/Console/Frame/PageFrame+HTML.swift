import Encoding
import Readers

extension PageFrame {
    /// The whole page as HTML.
    package func html(_ page: some ConsolePage) -> [UInt8] {
        HTMLWriter.document { html in
            html.element("html", [.text(.lang, "en"), .class("theme-\(theme.rawValue)")]) { html in
                Self.writeHead(
                    [page.title, page.subject?.shortenedID].compactMap(\.self).joined(separator: " "), to: &html)
                html.element("body", hasKeys ? [.text(.key, "on")] : []) { html in
                    writeHeader(page, to: &html)
                    if stream?.environment == "sandbox" {
                        html.element("p", [.class("sandbox")], text: "Sandbox: purchases of testers, not of customers")
                    }
                    html.element("main", [.text(.id, "content"), .text(.tabindex, "-1")]) { html in
                        html.element("h1") { html in
                            html.text(page.title)
                            guard let subject = page.subject else { return }
                            html.text(" ")
                            html.element("code", [.text(.copy, "Copy the id")], text: subject)
                        }
                        if let done = page.done {
                            html.element("p", [.class("note"), .text(.role, "status")], text: done)
                        }
                        writeStop(to: &html)
                        page.write(in: self, to: &html)
                    }
                    writeFooter(to: &html)
                }
            }
        }
    }

    static func writeHead(_ title: String, to html: inout HTMLWriter) {
        html.element("head") { html in
            html.void("meta", [.text(.charset, "utf-8")])
            html.void("meta", [.text(.name, "viewport"), .text(.content, "width=device-width, initial-scale=1")])
            html.void("meta", [.text(.name, "color-scheme"), .text(.content, "light dark")])
            html.element("title", text: "\(title) – Subledger")
            html.void("link", [.text(.rel, "stylesheet"), .href(Address("console.css"))])
            html.element("script", [.src(Address("console.js")), .flag(.defer)]) { _ in }
        }
    }

    private func writeHeader(_ page: some ConsolePage, to html: inout HTMLWriter) {
        html.element("header") { html in
            html.link("Skip to the content", address.at("content"), [.class("skip")])
            html.link("Subledger", here(Address()), [.class("brand")])
            let search: [Attribute] = [.action(Address("search")), .text(.role, "search"), .class("search")]
            html.element("form", search) { html in
                html.void(
                    "input",
                    [
                        .text(.type, "search"), .text(.name, "q"), .text(.id, "search"), .text(.label, "Any id"),
                        .text(.placeholder, "Any id: customer, token, transaction…"), .text(.autocomplete, "off"),
                        .text(.maxlength, "256"), .flag(.required),
                    ])
                if let stream { html.hidden("stream", stream.text) }
                html.element("button", text: "Search")
            }
            writeStreams(to: &html)
            html.element("form", [.text(.method, "post"), .action(Address("logout")), .class("logout")]) { html in
                html.hidden("csrf", csrf)
                html.element("button", text: "Log out")
            }
            html.element("nav", [.text(.label, "Pages")]) { html in
                for section in ConsoleSection.allCases {
                    html.link(
                        section.title, here(section.address),
                        page.section == section ? [.text(.current, "page")] : [])
                }
            }
            writeLag(to: &html)
        }
    }

    private func writeStreams(to html: inout HTMLWriter) {
        guard !streams.isEmpty else { return }
        html.element("form", [.action(address.withoutQuery), .class("streams")]) { html in
            for pair in address.query where !["stream", "csv", "skip"].contains(pair.name) {
                html.hidden(pair.name, pair.value)
            }
            html.element("select", [.text(.name, "stream"), .text(.label, "App and environment")]) { html in
                for each in streams {
                    html.element(
                        "option", [.text(.value, each.text)] + (each == stream ? [.flag(.selected)] : []),
                        text: "\(each.environment) · \(each.app)")
                }
            }
            html.element("button", text: "Show")
        }
    }

    private func writeLag(to html: inout HTMLWriter) {
        html.element("span", [.class("chip")], text: "UTC")
        guard let stream else { return }
        guard stream.waiting > 0 else {
            html.element("span", [.class("chip good")], text: "up to date")
            return
        }
        let since = stream.waitingSince.map { ", oldest \($0.words(from: now))" } ?? ""
        html.link("\(stream.waiting.grouped) waiting\(since)", here(Address("system")), [.class("chip bad")])
    }

    /// A projector that lags by seconds is at work; one that stopped makes every answer an old one.
    private func writeStop(to html: inout HTMLWriter) {
        guard let stream, stream.waiting > 0 else { return }
        let isOld = stream.waitingSince.map { now.milliseconds - $0.milliseconds > Self.lagShownMilliseconds } ?? false
        guard stream.stall != nil || isOld else { return }
        html.element("p", [.class("problem")]) { html in
            html.text(
                "Events of this app wait to be processed. Answers are as of event \(stream.folded.grouped)")
            html.text(" of \(stream.head.grouped)")
            if let since = stream.waitingSince {
                html.text("; the next one was received at ")
                html.time(since, from: now)
            }
            html.text(". ")
            html.link("What to do", here(Address("system")))
        }
    }

    private static let lagShownMilliseconds: Int64 = 60_000

    private func writeFooter(to html: inout HTMLWriter) {
        html.element("footer") { html in
            html.element("p") { html in
                html.text("Made ")
                html.time(now)
                html.text(". Bodies of notifications are not shown: ")
                html.element("code", text: "subledger inspect")
                html.text(" reads them.")
            }
            html.element("form", [.text(.method, "post"), .action(Address("preferences"))]) { html in
                html.hidden("csrf", csrf)
                html.hidden("back", address.text)
                html.element("span", text: "Colours:")
                for each in Theme.allCases {
                    html.element(
                        "button",
                        [.text(.name, "theme"), .text(.value, each.rawValue)]
                            + (each == theme ? [.text(.current, "true")] : []), text: each.rawValue)
                }
                html.element("span", text: "Keyboard shortcuts (? lists them):")
                html.element(
                    "button", [.text(.name, "keys"), .text(.value, hasKeys ? "off" : "on")],
                    text: hasKeys ? "switch off" : "switch on")
            }
            html.element("dialog", [.text(.id, "keys"), .text(.labelledby, "keys-title")]) { html in
                html.element("h2", [.text(.id, "keys-title")], text: "Keyboard shortcuts")
                html.element("dl") { html in
                    for (key, meaning) in Self.keys { html.item(key) { $0.text(meaning) } }
                }
                html.element("form", [.text(.method, "dialog")]) { $0.element("button", text: "Close") }
            }
        }
    }

    private static let keys = [
        ("/", "search"), ("j, k", "next and previous row"), ("Enter", "open the row"),
        ("[, ]", "previous and next page"),
        ("g, then h e f p d s", "overview, events, figures, products, deliveries, system"), ("?", "this list"),
    ]
}
