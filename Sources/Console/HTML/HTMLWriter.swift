import Encoding

/// Writes HTML. Text and attribute values are escaped where they are written, so no caller can forget it.
///
/// A builder of our own, not a template language: most of a page is tables and drawings whose marks are computed, which
/// templates without logic would receive as ready strings; a misspelt name in a template writes nothing, here it does
/// not compile; and escaping alone does not make a link safe, ``Address`` does.
package struct HTMLWriter {
    package private(set) var bytes: [UInt8] = []

    package init() {
        bytes.reserveCapacity(32 << 10)
    }

    /// The whole document.
    package static func document(_ content: (inout HTMLWriter) -> Void) -> [UInt8] {
        var writer = HTMLWriter()
        writer.markup("<!doctype html>\n")
        content(&writer)
        writer.markup("\n")
        return writer.bytes
    }

    package mutating func element(
        _ name: StaticString, _ attributes: [Attribute] = [], _ content: (inout HTMLWriter) -> Void
    ) {
        open(name, attributes)
        content(&self)
        markup("</")
        markup(name)
        markup(">")
    }

    package mutating func element(_ name: StaticString, _ attributes: [Attribute] = [], text: String) {
        element(name, attributes) { $0.text(text) }
    }

    /// An element that has no content, such as `input`.
    package mutating func void(_ name: StaticString, _ attributes: [Attribute] = []) {
        open(name, attributes)
    }

    package mutating func text(_ text: String) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "&"): markup("&amp;")
            case UInt8(ascii: "<"): markup("&lt;")
            case UInt8(ascii: ">"): markup("&gt;")
            case UInt8(ascii: "\""): markup("&quot;")
            case UInt8(ascii: "'"): markup("&#39;")
            // HTML does not allow other control characters, even as references.
            case 0..<0x09, 0x0B, 0x0C, 0x0E..<0x20, 0x7F: markup("\u{FFFD}")
            default: bytes.append(byte)
            }
        }
    }

    private mutating func open(_ name: StaticString, _ attributes: [Attribute]) {
        markup("<")
        markup(name)
        for attribute in attributes {
            markup(" ")
            bytes.append(contentsOf: attribute.name.utf8)
            guard let value = attribute.value else { continue }
            markup("=\"")
            text(value)
            markup("\"")
        }
        markup(">")
    }

    private mutating func markup(_ text: StaticString) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
