import Encoding

/// A decoded compact JWS (RFC 7515). Not verified, so it must not be trusted.
package struct JWS: Sendable {
    /// The whole text as it arrived.
    let text: ArraySlice<UInt8>
    /// The header in base64url.
    let header: ArraySlice<UInt8>
    /// The signed bytes: header and payload as they arrived, with the dot between them.
    let signedText: ArraySlice<UInt8>
    package let payload: JSONDocument
    let signature: [UInt8]

    /// Three certificates take about 6,000 characters.
    static let headerCharactersMax = 64 << 10

    /// - Parameter text: Three base64url segments with dots between them.
    package init(_ text: ArraySlice<UInt8>) throws(MalformedJWS) {
        let dot = UInt8(ascii: ".")
        guard let first = text.firstIndex(ofByte: dot), let second = text[(first + 1)...].firstIndex(ofByte: dot),
            text[(second + 1)...].firstIndex(ofByte: dot) == nil
        else { throw .notThreeSegments }
        self.text = text
        header = text[..<first]
        signedText = text[..<second]
        guard header.count <= Self.headerCharactersMax else { throw .headerTooLong }
        guard let payloadBytes = Base64.decode(text[(first + 1)..<second], .url),
            let signatureBytes = Base64.decode(text[(second + 1)...], .url)
        else { throw .notBase64 }
        signature = signatureBytes
        do throws(JSONError) {
            payload = try JSONDocument(payloadBytes)
        } catch {
            throw .payloadNotJSON
        }
        guard payload.root.isObject else { throw .payloadNotAnObject }
    }

    /// The time of signing in the payload, which app transactions call `receiptCreationDate`; nil if there is none.
    var signedDate: Instant? {
        var fields = JSONFields(payload.root)
        return fields.instant("signedDate") ?? fields.instant("receiptCreationDate")
    }
}

/// Why a text is not a JWS whose payload is a JSON object.
package enum MalformedJWS: String, Error, Sendable, CaseIterable {
    case notThreeSegments = "jws_segments"
    case headerTooLong = "jws_header_too_long"
    case notBase64 = "jws_base64"
    case payloadNotJSON = "jws_payload_not_json"
    case payloadNotAnObject = "jws_payload_not_an_object"

    package var explanation: String {
        switch self {
        case .notThreeSegments: "does not consist of three segments separated by dots"
        case .headerTooLong: "has a header of more than \(JWS.headerCharactersMax) characters"
        case .notBase64: "has a payload or signature that is not base64url without padding"
        case .payloadNotJSON: "has a payload that is not JSON"
        case .payloadNotAnObject: "has a payload that is JSON, but not an object"
        }
    }
}
