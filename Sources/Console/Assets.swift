import CResources

/// The files that pages load, as they are in the folder Assets.
package enum Assets {
    package static let css = bytes(embedded_console_css())
    package static let script = bytes(embedded_console_js())

    private static func bytes(_ file: EmbeddedFile) -> [UInt8] {
        Array(UnsafeBufferPointer(start: file.start, count: file.count))
    }
}
