/// The paths of a listener's certificate chain and private key, both in PEM.
package struct TLSFiles: Sendable, Hashable {
    /// The leaf first, then the intermediates.
    package let certificate: String
    package let key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}
