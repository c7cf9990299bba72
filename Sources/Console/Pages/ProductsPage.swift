import Encoding
import Readers
import Subscriptions

/// The products of an app, those without settings first, with the lengths that their transactions show.
package struct ProductsPage: ConsolePage {
    package let app: String
    package let products: [ConfiguredProduct]
    /// The rows of ``FigureQuery/plans``; nil if they take too long.
    package let plans: [[String?]]?
    package let edit: Edit?
    package let address: Address
    /// The product whose settings were saved by the form that led here; nil if none were.
    package var saved: String?

    /// A change that an administrator is about to make.
    package struct Edit: Sendable {
        package let product: ConfiguredProduct
        /// Nil before it is previewed.
        package let preview: String?
        package let problem: String?

        package init(product: ConfiguredProduct, preview: String?, problem: String?) {
            self.product = product
            self.preview = preview
            self.problem = problem
        }
    }

    package init(
        app: String, products: [ConfiguredProduct], plans: [[String?]]?, edit: Edit?, address: Address
    ) {
        self.app = app
        self.products = products
        self.plans = plans
        self.edit = edit
        self.address = address
    }

    package var title: String { "Products of \(app)" }
    package var done: String? {
        saved.flatMap { id in
            products.contains { $0.productId == id } ? "Done: the settings of \(id) are saved." : nil
        }
    }
    package var section: ConsoleSection? { .products }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }

    private var unmapped: [String] {
        let configured = Set(products.map(\.productId))
        return (plans ?? []).compactMap { $0[0] }.filter { !configured.contains($0) }
    }

    package var tables: [ConsoleTable] {
        let lengths = Dictionary((plans ?? []).map { ($0[0] ?? "", $0) }) { first, _ in first }
        func row(_ id: String, _ product: ConfiguredProduct?) -> [ConsoleTable.Cell] {
            [
                .link(id, Address("products").with("stream", stream).with("edit", id)),
                product == nil
                    ? .text("not mapped: grants its own id")
                    : .text(product?.givenEntitlements.joined(separator: ", ") ?? ""),
                .optional(product?.name), .optional(product?.kind), .optional(product?.duration),
                .optional(product?.level.map { "\($0)" }),
                .optional(lengths[id]?[1]),
                .optional(lengths[id]?[2].flatMap { Int64($0) }),
            ]
        }
        return [
            ConsoleTable(
                "products", caption: "Products",
                columns: [
                    .init("Product"), .init("Entitlements"), .init("Name"), .init("Kind"), .init("Duration"),
                    .init("Level"),
                    .init("Learned length"),
                    .init("Transactions of that length", isNumber: true),
                ],
                rows: unmapped.map { row($0, nil) } + products.map { row($0.productId, $0) },
                empty: "No product is configured, and no transaction names one. Add them by "
                    + "subledger product import, or when the first purchase has arrived, here.")
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        if plans == nil {
            html.element(
                "p", [.class("note")], text: "Learned lengths take longer than five seconds: see view analyst.plans.")
        }
        if let edit { write(edit, in: frame, to: &html) }
        for table in tables { table.write(on: address, to: &html) }
    }

    private func write(_ edit: Edit, in frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "edit")]) { html in
            html.element("h2", [.text(.id, "edit")], text: "Settings of \(edit.product.productId)")
            if let problem = edit.problem {
                html.element("p", [.class("problem"), .text(.role, "alert")], text: problem)
            }
            guard frame.isAdmin else {
                html.element("p", [.class("muted")], text: "Changing them needs a token of scope admin.")
                return
            }
            html.element("form", [.text(.method, "post"), .action(Address("products")), .class("filters")]) { html in
                html.hidden("csrf", frame.csrf)
                if let stream { html.hidden("stream", stream) }
                html.hidden("product", edit.product.productId)
                for (name, label, value) in [
                    ("kind", "Kind", edit.product.kind ?? ""),
                    ("duration", "Duration, if non-renewing", edit.product.duration ?? ""),
                    ("level", "Level, if it renews", edit.product.level.map { "\($0)" } ?? ""),
                    ("name", "Name, for people", edit.product.name ?? ""),
                    ("entitlements", "Entitlements, with commas", edit.product.entitlements.joined(separator: ", ")),
                ] {
                    html.element("label") { html in
                        html.text(label)
                        html.void(
                            "input",
                            [
                                .text(.name, name), .text(.type, "text"), .text(.value, value),
                                .text(.autocomplete, "off"),
                            ])
                    }
                }
                html.element("button", [.text(.name, "do"), .text(.value, "preview")], text: "Preview")
                if let preview = edit.preview {
                    html.hidden("previewed", edit.product.digestText)
                    html.element("p", text: preview)
                    html.element(
                        "button", [.text(.name, "do"), .text(.value, "save"), .class("primary")], text: "Save")
                }
            }
        }
    }
}

extension ConfiguredProduct {
    /// All settings in one line: what was previewed is what may be saved.
    package var digestText: String {
        "\(app)\n\(productId)\n\(kind ?? "")\n\(duration ?? "")\n\(level ?? 0)\n\(name ?? "")\n\(entitlements.joined(separator: ","))"
            .replacing("\n", with: "|")
    }
}
