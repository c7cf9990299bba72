/// An attribute of an element. Attributes that can carry code are not made from text: links only from an ``Address``,
/// `style` and event handlers not at all.
package struct Attribute: Sendable {
    let name: String
    /// Nil for an attribute that needs none, such as `required`.
    let value: String?

    private init(name: String, value: String?) {
        self.name = name
        self.value = value
    }

    /// The attributes whose value may be any text.
    package enum TextName: String, Sendable {
        case id, title, name, value, type, lang, role, scope, datetime, placeholder, method, autocomplete, rel, charset
        case content, colspan, tabindex, step, rows, maxlength, list, enctype
        case `for`, `class`
        case accept = "accept-charset"
        case label = "aria-label"
        case labelledby = "aria-labelledby"
        case describedby = "aria-describedby"
        case current = "aria-current"
        case live = "aria-live"
        case key = "data-key"
        /// The label of the button that copies the text.
        case copy = "data-copy"
        // Drawings.
        case viewBox, d, points, x, y, width, height, cx, cy, r, x1, y1, x2, y2, transform, fill, patternUnits, xmlns
        case patternTransform
        case opacity = "fill-opacity"
        case anchor = "text-anchor"
        case aspect = "preserveAspectRatio"
    }

    package enum FlagName: String, Sendable {
        case required, selected, checked, autofocus, hidden, `defer`
    }

    package static func text(_ name: TextName, _ value: String) -> Attribute {
        Attribute(name: name.rawValue, value: value)
    }

    /// A coordinate or length, in tenths of a pixel.
    package static func number(_ name: TextName, _ value: Double) -> Attribute {
        let tenths = Int((value * 10).rounded())
        let text =
            tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths < 0 ? "-" : "")\(abs(tenths) / 10).\(abs(tenths) % 10)"
        return Attribute(name: name.rawValue, value: text)
    }

    package static func flag(_ name: FlagName) -> Attribute { Attribute(name: name.rawValue, value: nil) }
    package static func href(_ address: Address) -> Attribute { Attribute(name: "href", value: address.text) }
    package static func src(_ address: Address) -> Attribute { Attribute(name: "src", value: address.text) }
    package static func action(_ address: Address) -> Attribute { Attribute(name: "action", value: address.text) }
    package static func `class`(_ names: String) -> Attribute { Attribute(name: "class", value: names) }
}
