/// Where a listener's certificate chain and its key are, both PEM.
package struct TLSFiles: Sendable, Hashable {
    /// The leaf first, then what leads to a root.
    package let certificate: String
    package let key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}
